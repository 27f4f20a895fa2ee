"""The command line. Thin: the only room that prints or exits."""

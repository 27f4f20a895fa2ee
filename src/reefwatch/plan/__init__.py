"""The solver: wishes and tables in, one consistent set or a named conflict out."""

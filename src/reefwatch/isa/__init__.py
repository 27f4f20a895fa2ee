"""The virtual AMD GPU."""

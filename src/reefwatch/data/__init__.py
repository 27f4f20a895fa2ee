"""The shipped tables and their loader."""

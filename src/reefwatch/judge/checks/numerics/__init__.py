"""Checks of the numerics contract."""

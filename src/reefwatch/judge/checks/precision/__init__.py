"""Checks of the precision contract."""

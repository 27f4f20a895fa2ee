"""Checks of the machine contract."""

"""Checks of the loop contract."""

"""Checks of the distributed contract."""

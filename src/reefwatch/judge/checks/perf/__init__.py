"""Checks of the perf contract."""

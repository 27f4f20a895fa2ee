"""Checks of the machine: codes MACH. Groups of ten follow the order in which to look."""

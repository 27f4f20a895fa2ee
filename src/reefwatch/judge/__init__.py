"""The judge. Pure: no I/O, no torch, no clock."""

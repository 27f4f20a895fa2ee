"""Instruments of the precision contract."""

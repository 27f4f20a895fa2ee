"""Instruments of the cost contract: time, memory, hardware state."""

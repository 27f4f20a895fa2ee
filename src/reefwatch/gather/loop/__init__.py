"""Instruments of the training-loop contract."""

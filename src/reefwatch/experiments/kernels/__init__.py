"""Triton kernels on the virtual AMD GPU: launches captured, run, and held against witnesses."""

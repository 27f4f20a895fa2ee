"""Triton and other kernels: does machine code compute what the source says."""

"""Triton launches: their arguments, their values, and Triton's interpreter beside them."""

"""The checks: one folder per contract, one file per check."""

"""Checks of the torch.compile contract."""

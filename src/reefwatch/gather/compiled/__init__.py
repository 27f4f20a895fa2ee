"""The instruments of the torch.compile contract: compiled code against the original callable."""

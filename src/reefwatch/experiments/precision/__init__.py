"""Did low precision pay: the same steps in fp32, as asked, and the best possible."""

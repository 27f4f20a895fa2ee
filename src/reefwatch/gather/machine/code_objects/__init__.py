"""Which GPU targets files carry: read from their bytes, without any tool."""

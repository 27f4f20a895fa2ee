"""From an error log to the layer that failed."""

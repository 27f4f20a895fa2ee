"""From an error log to the layer that failed: lines in, diagnosis out. Nothing is read or printed."""

"""From an error log to the layer that failed: lines in, diagnosis out. Nothing is opened here."""

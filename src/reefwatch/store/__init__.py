"""Records on disk: versioned, no pickle, crash-safe; merges ranks."""

"""Error measures and bounds, over arrays of either numpy or torch; imports neither."""

"""What is done about a mismatch when the run is over: the stage, the op, a repro."""

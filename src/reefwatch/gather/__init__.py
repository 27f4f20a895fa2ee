"""The eyes: what is there, and what happens in a run."""

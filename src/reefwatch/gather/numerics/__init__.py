"""The numbers of a run against the truth: each op computed again from its own inputs."""

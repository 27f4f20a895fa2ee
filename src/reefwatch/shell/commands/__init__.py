"""One file per verb: `arguments(parser)` and `run(options) -> int`."""

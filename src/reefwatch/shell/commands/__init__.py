"""One file per verb: `parser()` and `main(argv) -> int`."""

import sys

try:
    import torch_that_is_not_there  # noqa: F401
except ImportError as error:
    print(type(error).__name__, error, error.name)
print([type(f).__name__ if not isinstance(f, type) else f.__name__ for f in sys.meta_path][-3:])
print(sum(n * n for n in range(1000)), "torch" in sys.modules)

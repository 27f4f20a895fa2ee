from __future__ import annotations

from hypothesis import settings

# These properties read and write files: how long one takes says nothing.
settings.register_profile("files", deadline=None)
settings.load_profile("files")

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
# These properties read and write files: how long one takes says nothing.
settings.register_profile("files", deadline=None)
settings.load_profile("files")

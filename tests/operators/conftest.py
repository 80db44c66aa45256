"""The property tests run the same examples every time, so that a run that fails can be run again."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("operators", derandomize=True, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "operators"))

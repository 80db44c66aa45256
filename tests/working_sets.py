"""Working sets that are a few keys large, so that keys come and go all the time."""

from __future__ import annotations

import pytest

from windrow_runtime.storage import hot_keys as working_set

__all__ = ["make_working_sets_small"]


def make_working_sets_small(monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    """Lets some ten keys be in a working set."""
    rules = {"_LEAST_KEPT": 6, "_LEAST_REMEMBERED": 20, "_LEAVE_AT_ONCE": 4, "_LEAST_BYTES_OF_A_KEY": 2}
    for name, value in {**rules, "_MOST_BYTES": most_bytes}.items():
        monkeypatch.setattr(working_set, name, value)

"""Working sets that are a few keys large, so that keys come and go all the time."""

from __future__ import annotations

from windrow_spark.storage.tuning import HotKeyTuning

__all__ = ["small_working_sets"]


def small_working_sets(most_bytes: int) -> HotKeyTuning:
    """Some ten keys may be in a working set."""
    return HotKeyTuning(most_bytes, least_bytes_of_a_key=2, least_kept=6, least_remembered=20, leave_at_once=4)

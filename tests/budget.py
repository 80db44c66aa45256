"""How much random tests draw: as much as suits every run, or twenty times that with ``make thorough``.

``HYPOTHESIS_PROFILE`` chooses: ``windrow`` by default, ``quick`` for ``make quick``, and ``thorough`` for a night.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from hypothesis import settings

__all__ = ["PROFILE", "examples", "for_a_night", "register_profiles", "seeded", "seeds"]

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "windrow")
_EXAMPLES: Final = 30
_MORE: Final = 20
_T = TypeVar("_T")


def register_profiles() -> None:
    """Property tests without a number of their own; but for a night they run the same examples every time."""
    settings.register_profile("windrow", derandomize=True, deadline=None, max_examples=_EXAMPLES)
    settings.register_profile("quick", derandomize=True, deadline=None, max_examples=_EXAMPLES // 5)
    settings.register_profile("thorough", deadline=None, max_examples=_MORE * _EXAMPLES)
    settings.load_profile(PROFILE)


# Any: the options of Hypothesis's settings.
def examples(count: int, **options: Any) -> settings:
    """The settings of a property test that draws a number of examples: more of them for a night, fewer for a moment."""
    drawn = count * _MORE if PROFILE == "thorough" else max(1, count // 5) if PROFILE == "quick" else count
    return settings(max_examples=drawn, **options)


def for_a_night(all_: _T, few: _T) -> _T:
    """The cases or numbers that every run takes; for a night all that there are.

    For what is slow and shown by a cheaper test for all cases: a run on Spark beside one in the interpreter.
    """
    return all_ if PROFILE == "thorough" else few


def seeds(count: int) -> range:
    """The seeds of a test that draws by itself, and needs all of these to see what it is about."""
    return range(count * _MORE if PROFILE == "thorough" else count)


def seeded(cases: Iterable[str]) -> list[tuple[str, int]]:
    """One of two seeds for each case, in turn; for a night both of them."""
    if PROFILE == "thorough":
        return [(case, seed) for case in cases for seed in (1, 2)]
    return [(case, 1 + place % 2) for place, case in enumerate(cases)]

"""Finds out of which element of a source an element of a later step was made.

Nothing is noted for an element. While a step passes on elements, a trail has a function of it, which is called only
for an element that failed: it returns the place in the list that the step got of an element that it has passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from windrow_runtime.origins import Origin

# Any in this module: elements of every type.

Places: TypeAlias = Callable[[int], "int | None"]
"""Returns the index of an element among those that a step got, by that among those that it passes on; None: unknown."""


class Trail:
    """The way of the elements that a fragment works on now, from its source to the step that has them."""

    __slots__ = ("origin", "steps")

    def __init__(self) -> None:
        self.origin: Origin | None = None
        self.steps: list[Places | None] = []  # None: a step passes on all elements that it got, in their order

    def begin(self, origin: Origin | None) -> None:
        """Begins with elements of a source, or with others without ``origin``."""
        self.origin = origin
        self.steps.clear()

    def origin_of(self, index: int) -> str | None:
        """Describes where an element of the current step comes from, by its index; None if nobody can tell."""
        if self.origin is None:
            return None
        place: int | None = index
        for places in reversed(self.steps):
            if places is not None and place is not None:
                place = places(place)
        return None if place is None else self.origin(place)


def unknown(index: int) -> None:
    """Says that an element may have been made of any."""


class _Lazy:
    """Finds places in a list that is made when the first element has failed."""

    __slots__ = ("_make", "_places")

    def __init__(self, make: Callable[[], list[int]]) -> None:
        self._make = make
        self._places: list[int] | None = None

    def __call__(self, index: int) -> int:
        places = self._places
        if places is None:
            places = self._places = self._make()
        return places[index]


def kept(is_kept: Sequence[Any] | None) -> Places | None:
    """Returns the places of elements that a step has passed on by a list of truths; None: it has passed on all."""
    return None if is_kept is None else _Lazy(lambda: [place for place, each in enumerate(is_kept) if each])


def grouped(groups: Sequence[Sequence[Any]]) -> Places:
    """Returns the places of elements of which each group was made, one after the other."""
    return _Lazy(lambda: [place for place, group in enumerate(groups) for _ in group])


def both(later: Places | None, earlier: Places | None) -> Places | None:
    """Returns the places by two steps, one after the other."""
    if later is None or earlier is None:
        return later or earlier
    return partial(_both, later, earlier)


def _both(later: Places, earlier: Places, index: int) -> int | None:
    place = later(index)
    return None if place is None else earlier(place)

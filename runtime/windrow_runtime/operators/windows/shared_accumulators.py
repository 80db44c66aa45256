"""Hands accumulators to several windows: as they are where they cannot be changed, else a copy to each."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Final

from windrow_runtime.operators.constants import PLAIN_CONSTANTS, is_named_tuple

# Any in this module: accumulators of every type.

_DEEPEST: Final = 8  # a tuple that names one tuple twice, and so on, has no end


def for_each_window(contents: Sequence[Any], windows: int) -> Iterator[Sequence[Any]]:
    """Accumulators once for each window, made when it is asked for: no window sees what another does to its own.

    Args:
        contents: The accumulators. The last window takes them themselves.
        windows: How many windows there are.

    Raises:
        Exception: What copying raises: methods of the accumulators, or RecursionError where they are nested too deep.
    """
    copies = windows - 1
    if copies < 1 or are_immutable(contents):
        for _ in range(windows):
            yield contents
        return
    whole = list(contents)
    try:
        # Many at once, and read again many times: a fifth of the time of copies one by one.
        data = pickle.dumps(whole, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # Of a class that pickle cannot name, such as one within a function; the exchange carries these by value.
        for _ in range(copies):
            yield deepcopy(whole)
    else:
        for _ in range(copies):
            yield pickle.loads(data)
    yield contents


def first_without_copy(contents: Sequence[Any]) -> int | None:
    """The place of the first accumulator whose copying fails, for the error; None where each can be copied now."""
    for place, accumulator in enumerate(contents):
        try:
            for _ in for_each_window([accumulator], 2):
                pass
        except Exception:  # methods of the accumulator may raise anything
            return place
    return None


def are_immutable(values: Sequence[Any]) -> bool:
    """Returns whether values are constants, or tuples of such, by exact types: derived classes may hold anything."""
    for _ in range(_DEEPEST):
        kinds = set(map(type, values)) - PLAIN_CONSTANTS
        if not kinds:
            return True
        if not all(map(_is_plain_container, kinds)):
            return False
        values = list(chain.from_iterable([value for value in values if type(value) in kinds]))
    return False


def _is_plain_container(kind: type[Any]) -> bool:
    """Returns whether the instances of a class hold nothing but the elements that they give, and never change."""
    return kind is frozenset or kind is tuple or is_named_tuple(kind)

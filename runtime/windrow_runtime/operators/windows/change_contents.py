"""Keeps the contents of windows that take elements out again when they are withdrawn upstream."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from math import isnan
from operator import itemgetter
from typing import Any

from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec, ReduceSpec
from windrow.rows.equality import field_names, is_same
from windrow_runtime.operators.copies import accumulator_maker, own_all
from windrow_runtime.operators.state.model import NOTHING, GrowingList
from windrow_runtime.operators.windows.contents import ArrivalContents, Contents, computed

# Any in this module: contents hold elements and accumulators of every type.


class ChangingContents(Contents):
    """The base of contents from which elements can be taken out; ``withdraws`` says whether the next ones are."""

    withdraws = False


class CountedContents(ChangingContents):
    """Keeps one accumulator, and how many elements are in it: an empty window has none."""

    def __init__(self, function: AggregateFunction[Any, Any, Any]) -> None:
        self.function = function
        self.create = accumulator_maker(function)

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        count, accumulator = (0, self.create()) if contents is NOTHING else contents
        if not self.withdraws:
            return count + 1, self.function.add(value, accumulator)
        return (count - 1, self.function.retract(value, accumulator)) if count > 1 else NOTHING

    def merge(self, first: Any, second: Any) -> Any:
        return first[0] + second[0], self.function.merge(first[1], second[1])

    def elements(self, contents: Any) -> Sequence[Any]:
        return (self.function.get_result(contents[1]),)


class KeptContents(ArrivalContents, ChangingContents):
    """Keeps all elements, and computes from those that are left when the window fires."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        if not self.withdraws:
            index = getattr(contents, "arrivals_by_hash", None)
            if index is not None:
                index[_hash_of(value)].append(arrival)
            return super().add(contents, value, timestamp, arrival)
        if contents is NOTHING:
            return NOTHING
        if type(contents) is not GrowingList:
            contents = GrowingList(contents)
        # Equal elements give equal results, so the first one serves for each. One that is missing came behind the
        # watermark, and was never added.
        position = _remove_from_index(value, contents)
        if position is not None:
            del contents[position]
        return contents or NOTHING

    def elements(self, contents: Any) -> list[Any]:
        values = super().elements(contents)
        if not isinstance(self.spec, (ReduceSpec, AggregateSpec)):
            return values
        return list(computed(self.spec, own_all(values)) or ())


def _remove_from_index(value: Any, elements: GrowingList) -> int | None:
    """Removes the first element that equals a withdrawn one from the index; returns its position, or None if none does.

    The index has the numbers of arrivals, in order, by a hash that equal elements have in common as a rule. Where a
    class compares in a way of its own, all elements are searched.
    """
    index: defaultdict[int, list[int]] | None = getattr(elements, "arrivals_by_hash", None)
    if index is None:
        index = elements.arrivals_by_hash = defaultdict(list)
        for arrival, _, stored in elements:
            index[_hash_of(stored)].append(arrival)
    for arrival in index.get(_hash_of(value), ()):
        position = bisect_left(elements, arrival, key=itemgetter(0))
        if is_same(elements[position][2], value):
            break
    else:
        position = next((position for position, (_, _, stored) in enumerate(elements) if is_same(stored, value)), -1)
        if position < 0:
            return None
    arrival, _, stored = elements[position]
    key = _hash_of(stored)
    index[key].remove(arrival)
    if not index[key]:
        del index[key]
    return position


def _hash_of(value: Any) -> int:
    """Returns a number that elements have in common if they are equal, or are NaN at the same places."""
    if isinstance(value, float) and isnan(value):
        return 0
    if isinstance(value, dict):
        return hash(frozenset([(key, _hash_of(item)) for key, item in value.items()]))
    if isinstance(value, (tuple, list)):
        return hash(tuple(map(_hash_of, value)))
    if isinstance(value, (set, frozenset)):
        return hash(frozenset(map(_hash_of, value)))
    names = field_names(type(value))
    if names:
        return hash(tuple([_hash_of(getattr(value, name, None)) for name in names]))
    try:
        return hash(value)
    except Exception:  # the user's class may raise anything, and such elements are searched
        return 0


def changing_contents_for(spec: FunctionSpec, element_type: object | None) -> ChangingContents:
    """Chooses how a step with this function keeps contents from which elements are taken out."""
    if isinstance(spec, AggregateSpec) and spec.aggregate.can_retract(element_type):
        return CountedContents(spec.aggregate)
    return KeptContents(spec)

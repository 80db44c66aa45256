"""Keeps the contents of windows that take elements out again when they are withdrawn upstream."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import reduce
from math import isnan
from operator import indexOf, itemgetter
from typing import Any

from windrow.functions import AggregateFunction
from windrow.plan import AggregateSpec, FunctionSpec, ReduceSpec
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.state.model import NOTHING
from windrow_runtime.operators.windows.contents import ArrivalContents, Contents

# Any in this module: contents hold elements and accumulators of every type.


class ChangingContents(Contents):
    """The base of contents from which elements can be taken out; ``withdraws`` says what the next ones are."""

    withdraws = False


class CountedContents(ChangingContents):
    """Keeps one accumulator, and how many elements are in it: an empty window has none."""

    def __init__(self, function: AggregateFunction[Any, Any, Any]) -> None:
        self.function = function

    def add(self, contents: Any, value: Any, timestamp: int | None, arrival: int) -> Any:
        count, accumulator = (0, self.function.create_accumulator()) if contents is NOTHING else contents
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
            return super().add(contents, value, timestamp, arrival)
        if contents is NOTHING:
            return NOTHING
        kept = list(contents)
        # Equal elements give equal results, so the first one serves for each. One that is not there came behind the
        # watermark, and never was.
        place = _place_of(value, kept)
        if place is None:
            return contents
        del kept[place]
        return type(contents)(kept) if kept else NOTHING

    def elements(self, contents: Any) -> list[Any]:
        values = super().elements(contents)
        spec = self.spec
        if isinstance(spec, ReduceSpec):
            return [reduce(spec.reduce, own_all(values))]
        if isinstance(spec, AggregateSpec):
            accumulator = spec.aggregate.create_accumulator()
            for value in own_all(values):
                accumulator = spec.aggregate.add(value, accumulator)
            return [spec.aggregate.get_result(accumulator)]
        return values


def _place_of(value: Any, kept: list[tuple[Any, Any, Any]]) -> int | None:
    """Returns the place of the first arrival whose element is the withdrawn one; None: it is not there."""
    # Python's own search is many times as fast as a loop; only NaN needs the loop.
    with suppress(ValueError):
        return indexOf(map(itemgetter(2), kept), value)
    return next((place for place, (_, _, known) in enumerate(kept) if _is_same(known, value)), None)


def _is_same(known: Any, value: Any) -> bool:
    """Returns whether an element is the withdrawn one: equal to it, or as a NaN the same in every part."""
    if known is value or known == value:
        return True
    if isinstance(known, float):
        return isinstance(value, float) and isnan(known) and isnan(value)
    if type(known) is not type(value):
        return False
    if is_dataclass(known) and not isinstance(known, type):
        return all(_is_same(getattr(known, field.name), getattr(value, field.name)) for field in fields(known))
    if not isinstance(known, (tuple, list)) or len(known) != len(value):
        return False
    return all(map(_is_same, known, value))


def changing_contents_for(spec: FunctionSpec, element_type: object | None) -> ChangingContents:
    """Chooses how a step with this function keeps contents from which elements are taken out."""
    if isinstance(spec, AggregateSpec) and spec.aggregate.can_retract(element_type):
        return CountedContents(spec.aggregate)
    return KeptContents(spec)

"""Compares the aggregates of a window step with those that a savepoint has: which are new, and who takes their None."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import DeclaredAggregate
from windrow.aggregates.facts import FilledWindow, WindowFact
from windrow.functions import AggregateFunction
from windrow.functions.type_names import type_name
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow.plan.fitting import accepts_none
from windrow.plan.types import parameter_types
from windrow_spark.checkpoint.plan_shape import Shape, places_of_aggregates

# Any in this module: aggregates of every type.


def is_of_aggregates(part: str) -> bool:
    """Returns whether a part of a shape describes the aggregates of a step, or their results."""
    return part == "aggregates" or part.startswith("result of aggregate ")


def places_of(node: WindowNode, before: Shape, now: Shape) -> tuple[int | None, ...] | None:
    """Returns where each aggregate of a combination was in the savepoint; None: all are as they were, or none fits."""
    spec = node.function
    old, new = before.get("aggregates"), now.get("aggregates")
    if old is None or old == new or not isinstance(spec, AggregateSpec) or not isinstance(spec.aggregate, Combined):
        return None
    places = places_of_aggregates(old, spec.aggregate)
    if places is None or all(place is None for place in places):
        return None
    for number, place in enumerate(places, start=1):
        results = before.get(f"result of aggregate {(place or 0) + 1}"), now.get(f"result of aggregate {number}")
        if place is not None and None not in results and results[0] != results[1]:
            return None
    return places


def new_aggregates(step: Step, places: Sequence[int | None]) -> Iterator[str]:
    """Yields the numbers of new aggregates, with the fields that take their results where these are known."""
    names = [name for name, _ in _aggregates_of(step)]
    for number, place in enumerate(places):
        if place is None:
            yield f"{number + 1} ({names[number]})" if number < len(names) and names[number] else f"{number + 1}"


def _aggregates_of(step: Step) -> Sequence[tuple[str, AggregateFunction[Any, Any, Any, Any, Any]]]:
    """Returns the aggregates of a combination, with the fields that take their results."""
    whole = _combined_of(step)
    if whole is None or whole.target is None:
        return []
    return [(name, member) for name, member in whole.fields_of(whole.target) if not isinstance(member, WindowFact)]


def _combined_of(step: Step) -> Combined[Any, Any, Any, Any] | None:
    """Returns the combination whose target makes the results of a step, facts of the window among its members."""
    spec = None if step.node.windows is None else step.node.windows.function
    if not isinstance(spec, AggregateSpec):
        return None
    whole = spec.process.combined if isinstance(spec.process, FilledWindow) else spec.aggregate
    return whole if isinstance(whole, Combined) else None


def unfilled_fields(step: Step, places: Sequence[int | None]) -> Iterator[str]:
    """Names the fields that do not take what new aggregates give of nothing."""
    whole = _combined_of(step)
    types = {} if whole is None or whole.target is None else parameter_types(whole.target)
    # Where a result has facts alone, a count holds that there are elements.
    for (name, member), place in zip(_aggregates_of(step), places, strict=False):
        if place is not None or not isinstance(member, DeclaredAggregate) or name not in types:
            continue
        if member.gives_none(None, may_be_empty=True) and not accepts_none(types[name]):
            yield f"field {name}, which takes {type_name(types[name])}, of {member.describe()}"

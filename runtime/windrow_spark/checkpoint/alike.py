"""Finds steps and streams of a plan that only their places tell apart, so that a later plan may exchange them unseen.

State is found by the names of steps, or by their order. Streams upstream of a step are compared by the functions that
lead there. A new version of a program may change numbers in these functions, and their places as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from windrow.errors import warn
from windrow.functions.wrapper import unwrapped
from windrow.plan import Step
from windrow.plan.own_parts import declared_state
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.operators.topology import source_of
from windrow_spark.checkpoint.code_mark import code_of
from windrow_spark.checkpoint.feeds import Feeds, Input, feeds_of
from windrow_spark.checkpoint.plan_shape import step_shape
from windrow_spark.checkpoint.stored_streams import streams_of
from windrow_spark.physical.plan import PhysicalPlan

_HINT: Final = "give each a name, before the first run: {}"
_COUNTED: Final = re.compile(r"#\d+|-\d+$")
"""The parts of the names of state that come from the order of steps."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Says that two parts of a plan are told apart by their places alone, and how to name them."""

    step: Step
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.step.where}: {self.message}: {self.hint}"


def alike_in(plan: PhysicalPlan) -> Iterator[Alike]:
    """Yields the inputs of a step, the keyed steps and the sources that are told apart by their places alone."""
    feeds = feeds_of(plan)
    yield from _alike_inputs(plan, feeds)
    yield from _alike_steps(plan, feeds)
    yield from _alike_sources(plan)


def warn_of_alike(plan: PhysicalPlan) -> None:
    """Warns of each of them, at the line of the step."""
    for alike in alike_in(plan):
        where, location = alike.step.where, alike.step.node.location
        warn(alike.message, where=where, hint=alike.hint, location=location)


def _alike_inputs(plan: PhysicalPlan, feeds: Feeds) -> Iterator[Alike]:
    for step in plan.topology.keyed:
        for (one, stream), (other, its) in combinations(feeds.alike_inputs_of(step).items(), 2):
            if stream.fed_by == its.fed_by and _only_code_differs(stream, its):
                yield Alike(
                    step,
                    f"nothing that a checkpoint compares tells the {one} from the {other}: if they change places, a "
                    "run that goes on from this checkpoint takes one for the other",
                    _HINT.format("filter(..., name=...) or map(..., name=...) upstream of the step"),
                )


def _alike_steps(plan: PhysicalPlan, feeds: Feeds) -> Iterator[Alike]:
    marks, names = streams_of(plan).steps, plan.state_ids
    for one, other in combinations(plan.topology.keyed, 2):
        first, second = marks[names[one.id]], marks[names[other.id]]
        if _COUNTED.sub("", names[one.id]) != _COUNTED.sub("", names[other.id]) or step_shape(plan, one) != step_shape(
            plan, other
        ):
            continue
        pairs = [(mark, second.parts.get(part)) for part, mark in first.parts.items()]
        if len(pairs) != len(second.parts) or not all(its is not None and mark.is_that_of(its) for mark, its in pairs):
            continue
        route, its_route = feeds.route_to(one), feeds.route_to(other)
        is_other = route.code != its_route.code or _state_of(one) != _state_of(other)
        if route.functions == its_route.functions and is_other:
            yield Alike(
                other,
                f"nothing but its place tells the state of this step from that of {one.where}: if they change places, "
                "a run that goes on from this checkpoint takes one for the other",
                _HINT.format(f"{other.node.kind} steps take name=..."),
            )


def _alike_sources(plan: PhysicalPlan) -> Iterator[Alike]:
    marks = streams_of(plan).sources
    for (one, first), (other, second) in combinations(zip(plan.topology.sources, marks, strict=True), 2):
        source, its = source_of(one), source_of(other)
        if None not in (one.name, other.name) or type(source) is not type(its) or first.moving != second.moving:
            continue
        reads_same = reader_of(one).identity_is_exact and "what it reads" in first.moving
        if source is not its and not reads_same and code_of(source) != code_of(its):
            yield Alike(
                other,
                f"nothing but its place tells this source from {one.where}: if they change places, a run that goes on "
                "from this checkpoint takes one for the other",
                _HINT.format("from_source(source, name=...)"),
            )


def _only_code_differs(one: Input, other: Input) -> bool:
    route, its = one.route, other.route
    is_same = route.names == its.names and route.outline == its.outline and one.type_form == other.type_form
    return is_same and route.code != its.code


def _state_of(step: Step) -> list[str]:
    """Returns digests of the functions that decide what the state of a step is."""
    node = step.node
    if node.process_function is not None:
        return [code_of(node.process_function)]
    if node.windows is None:
        return []
    spec = node.windows.function
    process = unwrapped(spec.process)
    functions = [process if any(declared_state(process)) else None, spec.fold]
    return [code_of(function) for function in functions if function is not None]

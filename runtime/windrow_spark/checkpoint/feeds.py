"""Finds, for each step of a plan, which sources and keyed steps feed it, and through which functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from windrow.plan import Node, Step
from windrow_spark.checkpoint.code_mark import Mark, code_of, digest, mark_of, outline_of
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: functions of elements of every type.

T = TypeVar("T")


def once_a_plan(describe: Callable[[PhysicalPlan], T]) -> Callable[[PhysicalPlan], T]:
    """Makes a function keep what it has returned for a plan: to read large tables in users' functions takes time."""
    descriptions: WeakKeyDictionary[PhysicalPlan, T] = WeakKeyDictionary()

    @wraps(describe)
    def description_of(plan: PhysicalPlan) -> T:
        if plan not in descriptions:
            descriptions[plan] = describe(plan)
        return descriptions[plan]

    return description_of


@dataclass(frozen=True, slots=True)
class RouteMark:
    """Describes the stateless steps from sources and keyed steps to an input of a step.

    Attributes:
        functions: A digest of the functions that is the same in each version of Python.
        outline: A digest of the functions without their numbers.
        code: A digest of all that the functions compute, for comparisons within a run.
        names: The names that the user gave these steps.
    """

    functions: str = ""
    outline: str = ""
    code: str = ""
    names: frozenset[str] = frozenset()

    @staticmethod
    def joined(routes: Iterable[RouteMark]) -> RouteMark:
        """Returns the route of a step with several inputs, in whatever order they come."""
        each = list(routes)
        return RouteMark(
            digest(*sorted(route.functions for route in each)),
            digest(*sorted(route.outline for route in each)),
            digest(*sorted(route.code for route in each)),
            frozenset().union(*(route.names for route in each)),
        )

    def through(self, step: Step) -> RouteMark:
        """Returns the route from a step whose input has this one."""
        kind, function = step.node.kind, getattr(step.node, "function", None)
        return RouteMark(
            digest(kind, stable_mark(function), self.functions),
            digest(kind, "" if function is None else outline_of(function), self.outline),
            digest(kind, "" if function is None else code_of(function), self.code),
            self.names if step.name is None else self.names | {step.name},
        )


@dataclass(frozen=True, slots=True)
class Input:
    """One of several inputs of a step, such as the left stream of a join."""

    fed_by: frozenset[str]  # sources and keyed steps
    route: RouteMark
    type_form: object | None  # the type of its elements, if it is known

    @staticmethod
    def joined(inputs: Iterable[Input]) -> Input:
        """Returns the input that several streams make."""
        each = list(inputs)
        if len(each) == 1:
            return each[0]
        labels: frozenset[str] = frozenset().union(*(one.fed_by for one in each))
        return Input(labels, RouteMark.joined(one.route for one in each), each[0].type_form)


class Feeds:
    """Finds, for each step, which sources and keyed steps feed it, and through which functions."""

    def __init__(self, plan: PhysicalPlan) -> None:
        topology, names = plan.topology, plan.state_ids
        numbers = {step.id: number for number, step in enumerate(topology.sources, start=1)}
        self._inputs: dict[str, dict[str, Input]] = {}
        self._routes: dict[str, RouteMark] = {}
        outputs: dict[str, dict[str, Input]] = {}
        routes: dict[str, RouteMark] = {}
        for step in topology.steps:
            node = step.node
            by_port: dict[str, list[Input]] = {}
            for source in step.inputs:
                for port, stream in outputs[source].items():
                    by_port.setdefault(port, []).append(stream)
            inputs = {port: Input.joined(streams) for port, streams in by_port.items()}
            self._inputs[step.id] = inputs
            self._routes[step.id] = before = RouteMark.joined(routes[source] for source in step.inputs)
            if node.is_source or node.is_keyed:
                label = f"source {numbers[step.id]}" if node.is_source else names[step.id].lstrip("#")
                routes[step.id] = RouteMark()
                outputs[step.id] = {"input": Input(frozenset([label]), RouteMark(), node.element_type)}
                continue
            routes[step.id] = before.through(step)
            outputs[step.id] = _led_on(node, inputs, routes[step.id])

    def inputs_of(self, step: Step) -> dict[str, Mark]:
        """Returns marks of the sources and keyed steps that feed each input of a step."""
        return {
            f"the {port}": Mark(", ".join(sorted(each.fed_by))) for port, each in sorted(self._inputs[step.id].items())
        }

    def alike_inputs_of(self, step: Step) -> dict[str, Input]:
        """Returns the inputs of a step that the same sources and keyed steps feed as another input of it."""
        inputs = self._inputs[step.id]
        fed_by = [each.fed_by for each in inputs.values()]
        return {port: each for port, each in sorted(inputs.items()) if fed_by.count(each.fed_by) > 1}

    def route_to(self, step: Step) -> RouteMark:
        """Returns the functions directly upstream of a step."""
        return self._routes[step.id]


@once_a_plan
def feeds_of(plan: PhysicalPlan) -> Feeds:
    """Returns what feeds the steps of a plan."""
    return Feeds(plan)


def _led_on(node: Node, inputs: Mapping[str, Input], after: RouteMark) -> dict[str, Input]:
    """Returns the streams that a stateless step leads to steps downstream, by input."""
    whole = Input.joined(inputs.values())
    labels = whole.fed_by
    if node.port is not None:
        return {node.port: whole}
    if node.side_output is not None:
        labels = frozenset(f"{label} side output {node.side_output.name!r}" for label in labels)
    elif node.passes_all:
        return dict(inputs)
    # A function turns elements of two streams into those of one.
    return {"input": Input(labels, after, node.element_type)}


def stable_mark(function: Any) -> str:
    """Returns the mark of a function that no other version of Python changes; an empty text without a function."""
    if function is None:
        return ""
    mark = mark_of(function)
    return mark.text if mark.recognised else mark.names or ""

"""Decides whether the elements of a sink get there as columns, and on which routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.forms.route import CheckSource, ResultsOf, Route, no_results, open_routes
from windrow_runtime.columnar.forms.step_form import Form
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology


@dataclass(frozen=True, slots=True)
class SinkForm:
    """A sink that takes columns, with the routes from each source and each keyed step on columns."""

    step: Step
    kind: RecordType  # the type of its elements
    routes: tuple[Route, ...]

    def describe(self) -> str:
        """A few words for ``explain()``."""
        return "columns, in Arrow"


PlanForm: TypeAlias = Form | SinkForm
"""How a keyed step or a sink of a plan takes columns, or why not."""


def sink_form(
    topology: Topology, step: Step, check_source: CheckSource, results_of: ResultsOf = no_results
) -> SinkForm:
    """Decides how the elements of a sink that takes columns get there as such; declined where they do not."""
    try:
        kind = record_type(step.node.element_type)
    except InvalidArgumentError as error:
        raise DeclinedError(error.message) from error
    routes = open_routes(topology, topology.step(step.inputs[0]), check_source, results_of)
    for route in routes:
        _check_fits(route.element, kind)
    return SinkForm(step, kind, routes)


def _check_fits(given: RecordType, wanted: RecordType) -> None:
    """Declines columns that are not those which the sink would make of the elements."""
    pairs = list(zip(given.columns, wanted.columns, strict=False))
    if len(given.columns) != len(wanted.columns) or given.single != wanted.single:
        raise DeclinedError(f"the columns of a {given} are not those of a {wanted}")
    for one, other in pairs:
        same = one.column == other.column and one.type.kind is other.type.kind
        if not same or arrow_type(one.type) != arrow_type(other.type):
            raise DeclinedError(f"{wanted.prefix}{other.name} is a {other.type}, and it gets a {one.type}")
        if one.type.nullable and not other.type.nullable:
            raise DeclinedError(f"{wanted.prefix}{other.name} may get None")

"""The forms of keyed steps in a physical plan, where every source gives columns unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from windrow.plan import Step
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_spark.columnar.forms.result_type import OnColumns
from windrow_spark.columnar.forms.route import Route
from windrow_spark.columnar.forms.row_form import RowForm
from windrow_spark.physical.columns import ColumnPlanner
from windrow_spark.physical.plan import Objects, PhysicalPlan
from windrow_spark.physical.streams import CheckSource

# Any: sources of elements of every type.

T = TypeVar("T")


def gives_columns(step: Step) -> None:
    """Declines no source."""


def plan_of(
    topology: Topology, check_source: CheckSource = gives_columns, takes_columns: Callable[[Step], bool] = bool
) -> PhysicalPlan:
    """The plan of an engine in which all sinks take columns unless a test says otherwise."""
    return PhysicalPlan(topology, ColumnPlanner(check_source, takes_columns))


def column_form(topology: Topology, step: Step, check_source: CheckSource = gives_columns) -> OnColumns:
    """The form of a keyed step on columns; raises ``DeclinedError`` if it has none."""
    form = plan_of(topology, check_source).keyed[step.id].form
    if isinstance(form, Objects):
        raise DeclinedError(form.reason)
    return form


def row_form(topology: Topology, step: Step, check_source: CheckSource = gives_columns) -> RowForm:
    """The form in which elements get to a step on objects; raises ``DeclinedError`` if it has none."""
    return _accepted(plan_of(topology, check_source).keyed[step.id].arrival)


def sink_routes(topology: Topology) -> tuple[Route, ...]:
    """The routes to the first sink; raises ``DeclinedError`` if elements do not get there as columns."""
    return _accepted(plan_of(topology).sinks[topology.sinks[0].id].routes)


def _accepted(form: T | Objects) -> T:
    if isinstance(form, Objects):
        raise DeclinedError(form.reason)
    return form

"""Decides which joins of two streams run on columns: those whose result is declared.

What the result takes from elements lies in slots. Both sides share a slot where their columns are of one type: an
element is of one side, and a slot that only the other side fills would be empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from windrow.functions.marked import LEFT, RIGHT, JoinKind, JoinPairs
from windrow.functions.wrapper import unwrapped
from windrow.joins import DeclaredJoin
from windrow.joins.declared_join import JoinField, JoinSide
from windrow.plan import AsOfJoinNode, Form, IntervalJoinNode, Node, Step, WindowNode
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.codecs.value_type import ValueType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints
from windrow_spark.columnar.expressions.over_columns import ColumnExpression
from windrow_spark.columnar.forms.columnar_form import check_ends, check_near
from windrow_spark.columnar.forms.route import Route, ScanTarget
from windrow_spark.columnar.forms.route_step import total_expression
from windrow_spark.columnar.joins.interval import IntervalOperator
from windrow_spark.columnar.joins.side_rows import JoinOperator, ValueOrigin
from windrow_spark.columnar.joins.windowed import WindowJoinOperator
from windrow_spark.columnar.rows.groups import hash_keys
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.step_windows import Sessions, windows_of

# Any: elements, keys and results of every type.

_FAR: Final = MAX_TIMESTAMP // 8
"""Bounds above this many milliseconds mean that elements stay for ever; sums of them would leave 64 bits."""

_SIDES: Final = {JoinSide.LEFT: LEFT, JoinSide.RIGHT: RIGHT}


class _MakeOperator(Protocol):
    """Makes the operator of a join for the columns that its elements have."""

    def __call__(
        self, key_type: pa.DataType, slots: tuple[pa.DataType, ...], origins: tuple[ValueOrigin, ...]
    ) -> JoinOperator[Any]: ...


class _Input(NamedTuple):
    """The expression whose values the rows of one side have in a slot."""

    slot: int
    expression: ColumnExpression


class Slots(NamedTuple):
    """Where the values of a result lie in the rows of elements."""

    types: tuple[pa.DataType, ...]
    inputs: Mapping[int, Sequence[_Input]]  # by side
    origins: tuple[ValueOrigin, ...]  # one for each value of the result
    values: tuple[ValueType, ...]  # the types of these


@dataclass(frozen=True)
class JoinForm(ScanTarget):
    """A join of two streams that runs on columns."""

    join: DeclaredJoin[Any, Any, Any]
    slots: Slots
    operator: JoinOperator[Any]  # runs the step on a key group

    hash_keys = staticmethod(hash_keys)
    counts_windows = False
    makes_pairs = True

    @property
    def raw_schema(self) -> pa.Schema:
        return self.operator.schema

    @property
    def exchange_schema(self) -> pa.Schema:
        """The columns of elements that cross the exchange one by one."""
        return self.operator.schema

    @property
    def partial_schema(self) -> pa.Schema:
        """The same for partial aggregates, of which a join has none."""
        return self.operator.schema

    def columns_needed(self, route: Route) -> frozenset[str] | None:
        assert route.side is not None, "the routes of joins are of a side"
        assert route.key is not None, "joins are by key"
        names = (expression.columns for _, expression in self.slots.inputs[route.side])
        return route.columns_needed(route.key.columns.union(*names))

    @property
    def timed_part(self) -> str:
        return "a join by time" if self.step.node.windows is None else "an event-time window"

    def check(self, stamps: Ints) -> None:
        check_near(stamps)

    def columns_of(self, route: Route, named: Mapping[str, pa.Array]) -> list[pa.Array]:
        assert route.side is not None, "the routes of joins are of a side"
        columns = {slot: expression.evaluate(named) for slot, expression in self.slots.inputs[route.side]}
        count = len(next(iter(named.values())))
        filled = [
            columns[slot] if slot in columns else pa.nulls(count, kind) for slot, kind in enumerate(self.slots.types)
        ]
        return [pa.array(np.full(count, route.side, np.int8)), *filled]

    @cached_property
    def state_text(self) -> str:
        """The columns of the step's state, as a checkpoint stores them: a form with others cannot read the state."""
        types = ", ".join([str(field.type) for field in self.operator.schema])
        held = [
            f"{side} {expression.stored_text} in {slot}"
            for side, inputs in zip(("left", "right"), self.slots.inputs.values(), strict=True)
            for slot, expression in inputs
        ]
        return f"{types}: {', '.join(held)}"

    def state_text_of(self, fields: Sequence[str] | None) -> str:
        """Returns the same: the state has values of elements, and no records."""
        return self.state_text

    def describe(self) -> Form:
        """The form, for ``explain()``."""
        return Form(f"columns, {self.operator.describe()}")


def join_form(step: Step, side_routes: Callable[[Step], tuple[Route, ...]]) -> JoinForm:
    """The form of a join on columns; declined where it has none."""
    join = unwrapped(step.node.pair_function)
    if not isinstance(join, DeclaredJoin):
        raise DeclinedError("not a join of windrow.joins")
    make, kind = JOIN_OPERATORS[type(step.node)](step.node)
    routes = side_routes(step)
    check_ends(routes)
    slots = slots_of(join, routes, kind)
    return JoinForm(step, routes, join, slots, make(routes[0].key_type, slots.types, slots.origins))


def _as_of(node: AsOfJoinNode) -> tuple[_MakeOperator, JoinKind]:
    raise DeclinedError("a join as of a time looks versions up one by one")


def _by_interval(node: IntervalJoinNode) -> tuple[_MakeOperator, JoinKind]:
    if any(node.late_tags):
        raise DeclinedError("late elements leave one by one")
    if max(node.allowed_lateness, node.upper, -node.lower) > _FAR:
        raise DeclinedError("its elements stay for ever")
    kind = node.join_kind
    make = partial(IntervalOperator, lower=node.lower, upper=node.upper, lateness=node.allowed_lateness, kind=kind)
    return make, kind


def _by_windows(node: WindowNode) -> tuple[_MakeOperator, JoinKind]:
    assert isinstance(node.function.process, JoinPairs), "the caller asked"
    windows, kind = windows_of(node), node.function.process.kind
    if isinstance(windows, Sessions):
        raise DeclinedError("sessions merge where elements of either stream come between")
    if not isinstance(windows, Slices) or windows.is_global:
        raise DeclinedError(f"windows are fired by {node.effective_trigger.describe()}, not by their end")
    if any(node.late_tags) or node.late_tag is not None or windows.lateness:
        raise DeclinedError("late elements leave, or fire their windows, one by one")
    return partial(WindowJoinOperator, windows=windows, kind=kind), kind


# Any: each function takes nodes of its class.
JOIN_OPERATORS: Final[Mapping[type[Node], Callable[[Any], tuple[_MakeOperator, JoinKind]]]] = {
    AsOfJoinNode: _as_of,
    IntervalJoinNode: _by_interval,
    WindowNode: _by_windows,
}
"""What makes the operator of a join on columns, and says which sides may be missing, by the class of its node."""


def slots_of(join: DeclaredJoin[Any, Any, Any], routes: Sequence[Route], kind: JoinKind) -> Slots:
    """The slots of a join; declined where a field is no expression of columns."""
    route_of = {route.side: route for route in reversed(routes)}
    expressions: list[tuple[int | None, str, ColumnExpression]] = []
    for name, (_, field) in zip(join.parameters(), join.fields, strict=True):
        expressions.append(_expression_of(name, field, route_of))
    types: list[pa.DataType] = []
    inputs: dict[int, list[_Input]] = {LEFT: [], RIGHT: []}
    places: dict[tuple[int, str], int] = {}
    # In order of what they are, so that the order of the result's fields does not matter to the state.
    for side, text, expression in sorted(expressions, key=lambda each: (each[0] or 0, each[1])):
        if side is None or (side, text) in places:
            continue
        used_slots = {slot for slot, _ in inputs[side]}
        free = [slot for slot, kind in enumerate(types) if kind == expression.arrow_type and slot not in used_slots]
        if not free:
            types.append(expression.arrow_type)
        slot = free[0] if free else len(types) - 1
        inputs[side].append(_Input(slot, expression))
        places[side, text] = slot
    at = tuple([ValueOrigin(side, 0 if side is None else places[side, text]) for side, text, _ in expressions])
    missing = kind.missing
    values = [
        replace(expression.value, nullable=True) if side in missing else expression.value
        for side, _, expression in expressions
    ]
    return Slots(tuple(types), inputs, at, tuple(values))


def _expression_of(
    name: str, field: JoinField[Any, Any, Any], route_of: Mapping[int | None, Route]
) -> tuple[int | None, str, ColumnExpression]:
    """The side of a field, what it is as a text, and how it is computed."""
    if field.selector is None:
        key = route_of[LEFT].key
        assert key is not None, "joins are by key"
        return None, "", key
    side = _SIDES[field.side]
    expression = total_expression(field.selector, route_of[side].element, f"the field {name}")
    return side, expression.stored_text, expression

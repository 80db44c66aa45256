"""Hands elements to a keyed step as columns: they become objects there, or are aggregated partially before.

A step whose function is Python code needs objects. Made where the records are read, they would have to be pickled for
the exchange; as columns they cross it for next to nothing, and become objects right before the step takes them.

Where the function can merge, elements are aggregated by slice in front of the exchange, and one accumulator for many of
them crosses it: the windows that hold one element of a slice hold all. A tumbling window is one slice. Sliding windows
share theirs: an element is added once, and the accumulator of its slice is merged into each window behind the
exchange. It pays where a task has several elements for each key and slice, which is known once they are grouped;
elsewhere they cross one by one.

A tumbling window has its elements in order of arrival either way: those of one task are folded in their order, and
``merge`` gets the earlier accumulator first. A sliding window has those of one slice after those of another, so its
function must say that order makes no difference.

Where late elements leave one by one, or fire their windows, those that may be behind the watermark when they arrive
cross one by one.

Elements of one key of which each is at most a gap behind the one before become one session where they are read, if the
function says the same and no element of the key may be behind the watermark when it arrives: whether one that is behind
is late depends on those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import DeclaredAggregate
from windrow.functions import AggregateFunction, RichFunction
from windrow.plan import AggregateSpec, ReduceSpec, Step, WindowNode
from windrow.windows import TimeWindow
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.route import ExchangeRows, Route, RoutesTo, ScanTarget
from windrow_runtime.columnar.rows.columns import python_values
from windrow_runtime.columnar.rows.groups import Groups, Keys, cells_of, encode_keys, stable_hashes
from windrow_runtime.columnar.windows.geometry import FARTHEST, Slices
from windrow_runtime.columnar.windows.kinds import Sessions, windows_of
from windrow_runtime.columnar.windows.sessions import may_be_behind, sessions_in_task
from windrow_runtime.operators.copies import accumulator_maker
from windrow_runtime.operators.errors import USER_ERRORS, DeclinedError, call_description, raise_call_error
from windrow_runtime.operators.state.model import NOTHING
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.operators.windows.shape import GapWindows, shape_of

# Any in this module: keys, elements and accumulators of every type.

_ROWS_AT_ONCE: Final = 8_192  # more of them leave the processor's cache

_WORTH_IT: Final = 4
"""From this many elements for each accumulator on, folding saves more than it costs to pickle accumulators."""

_WORTH_SHARING: Final = 3
"""The same where windows share slices: an element is added once, its accumulator is copied and merged many times."""


class TaskAggregation(NamedTuple):
    """How tasks aggregate elements of windows before the exchange, by an aggregate function that has a ``merge``."""

    windows: Slices | Sessions
    function: AggregateFunction[Any, Any, Any]
    sees_late: bool = False  # whether late elements leave, or fire their windows, one by one

    @property
    def shares_slices(self) -> bool:
        """Returns whether a window is made of several slices."""
        return isinstance(self.windows, Slices) and self.windows.windows_each > 1

    @property
    def is_on_time_only(self) -> bool:
        """Returns whether elements that may be behind the watermark cross the exchange one by one."""
        return self.sees_late or isinstance(self.windows, Sessions)


class _Groups(NamedTuple):
    """Elements by what they are folded to."""

    groups: Groups  # the accumulator of each element
    codes: Ints  # the key of each accumulator, by its number
    starts: list[int]
    ends: list[int]  # of sessions; none of slices


@dataclass(frozen=True)
class RowForm(ScanTarget):
    """A keyed step on Python objects whose elements get there as columns."""

    aggregation: TaskAggregation | None  # None: elements are not partially aggregated before the exchange
    by_key: bool  # whether elements of one key come side by side, which the loop of sessions takes at once

    hash_keys = staticmethod(stable_hashes)  # keys lie where they would if they came as objects

    @cached_property
    def raw_schema(self) -> pa.Schema:
        return self._schema_of(self._element_fields())

    def describe(self) -> str:
        """A few words for ``explain()``."""
        where = "on time and worth it" if self.aggregation and self.aggregation.sees_late else "that pays"
        before = "" if self.aggregation is None else f", partially aggregated before where {where}"
        shared = ", slices shared by windows" if self.aggregation and self.aggregation.shares_slices else ""
        return f"elements cross the exchange as columns{before}{shared}"

    def stamps_of(self, route: Route, stamps: Ints) -> pa.Array:
        """The timestamps of elements that came by a route; those of elements without any are null."""
        return pa.array(stamps) if route.is_stamped else pa.nulls(len(stamps), pa.int64())

    def portions(self, rows: pa.RecordBatch) -> Iterator[RowPortion]:
        """Rows that came through the exchange, a few thousand at a time."""
        encoded = encode_keys(rows.column(0))
        codes = encoded.codes
        if self.by_key:
            order = Groups(codes, len(encoded.distinct)).order
            rows, codes = rows.take(pa.array(order)), codes[order]
        distinct = np.fromiter(python_values(encoded.distinct), dtype=object, count=len(encoded.distinct))
        # Equal keys are one object, which makes it fast to look them up.
        keys = distinct[codes].tolist()
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            yield RowPortion(self, rows.slice(start, _ROWS_AT_ONCE), keys[start : start + _ROWS_AT_ONCE])

    def hashes(self, rows: pa.RecordBatch) -> Iterable[tuple[Any, int]]:
        """The different keys of rows that came through the exchange, each with its hash."""
        distinct = encode_keys(rows.column(0)).distinct
        return zip(python_values(distinct), stable_hashes(distinct).tolist(), strict=True)

    def exchange_rows(self, rows: pa.RecordBatch, bound: int | None) -> Iterator[tuple[ExchangeRows, pa.RecordBatch]]:
        aggregation = self.aggregation
        if aggregation is None or (bound is None and aggregation.is_on_time_only):
            yield ExchangeRows.ELEMENTS, rows
            return
        if bound is not None and aggregation.is_on_time_only:
            stays = _may_be_late(aggregation.windows, rows, bound)
            if stays.any():
                yield ExchangeRows.ELEMENTS, rows.filter(pa.array(stays))
                rows = rows.filter(pa.array(~stays))
        if rows.num_rows:
            yield ExchangeRows.AGGREGABLE, rows

    def partials(self, keys: Keys, rows: pa.RecordBatch) -> tuple[Ints, Partials] | None:
        """Folds elements, if that is worth it."""
        if self.aggregation is None:
            return None
        stamps = rows.column(1).to_numpy()
        if not len(stamps) or stamps.min() < -FARTHEST or stamps.max() > FARTHEST:
            return None
        found = _groups_in(self.aggregation.windows, keys, stamps)
        least = _WORTH_SHARING if self.aggregation.shares_slices else _WORTH_IT
        if found.groups.count * least > len(stamps):
            return None
        counts = found.groups.sizes.tolist()
        in_order = rows.take(pa.array(found.groups.order))
        portions = (
            RowPortion(self, in_order.slice(at, _ROWS_AT_ONCE), ()) for at in range(0, len(stamps), _ROWS_AT_ONCE)
        )
        values = chain.from_iterable(portion.values for portion in portions)
        distinct = python_values(keys.distinct)
        owners = [distinct[code] for code in found.codes.tolist()]
        accumulators = self._accumulators(self.aggregation, values, owners, found, counts)
        return found.codes, Partials(owners, accumulators, found.starts, found.ends, counts)

    def _accumulators(
        self,
        aggregation: TaskAggregation,
        values: Iterator[Any],
        owners: Sequence[Any],
        found: _Groups,
        counts: Sequence[int],
    ) -> list[Any]:
        """Folds elements, which lie side by side by what they are folded to."""
        create, add = accumulator_maker(aggregation.function), aggregation.function.add
        made: list[Any] = []
        value: Any = NOTHING
        try:
            for count in counts:
                value = NOTHING  # the accumulator is made for none
                accumulator = create()
                for value in islice(values, count):
                    accumulator = add(value, accumulator)
                made.append(accumulator)
        except USER_ERRORS as error:
            start, windows = found.starts[len(made)], aggregation.windows
            if isinstance(windows, Slices):
                start -= (start - windows.offset) % windows.slide
            end = start + windows.size if isinstance(windows, Slices) else found.ends[len(made)]
            given = call_description(owners[len(made)], window=TimeWindow(start, end), element=value)
            raise_call_error(self.step, error, given)
        return made


def _may_be_late(windows: Slices | Sessions, rows: pa.RecordBatch, bound: int) -> Mask:
    """Marks elements that may be late, or fire a window again, under a watermark that is not above a bound."""
    stamps = rows.column(1).to_numpy()
    if isinstance(windows, Sessions):
        return may_be_behind(encode_keys(rows.column(0)), stamps, windows.gap, bound)
    # A sum may not leave 64 bits: elements that are so far away are not aggregated.
    near = np.clip(stamps, -FARTHEST, FARTHEST)
    on_time: Mask = windows.on_time(bound, windows.slices_of(near)) & (near == stamps)
    return ~on_time


def _groups_in(windows: Slices | Sessions, keys: Keys, stamps: Ints) -> _Groups:
    """Groups the elements of a task by key, and by slice or session."""
    if isinstance(windows, Sessions):
        groups, codes, starts, ends = sessions_in_task(keys, stamps, windows.gap)
        return _Groups(groups, codes, starts.tolist(), ends.tolist())
    cells = cells_of(keys, windows.numbers_of(stamps))
    return _Groups(cells.groups, cells.codes, windows.slices_at(cells.places).tolist(), [])


@dataclass(slots=True)
class RowPortion:
    """Elements for one step as columns; each read of ``values`` makes the objects anew."""

    form: RowForm
    rows: pa.RecordBatch  # keys, timestamps, and the columns of the elements
    keys: Sequence[Any]

    @property
    def values(self) -> Sequence[Any]:
        """The elements."""
        return self.form.elements_of(self.rows.columns[2:])

    @property
    def timestamps(self) -> Sequence[int | None]:
        """Their timestamps in milliseconds."""
        column = self.rows.column(1)
        stamps: list[int | None] = column.to_pylist() if column.null_count else column.to_numpy().tolist()
        return stamps

    def pick(self, places: Sequence[int]) -> RowPortion:
        """Returns the rows at some indices."""
        rows = self.rows.take(pa.array(places, pa.int64()))
        return RowPortion(self.form, rows, [self.keys[place] for place in places])


def row_form(step: Step, routes_to: RoutesTo, aggregation: TaskAggregation | None) -> RowForm:
    """Decides how the elements of a keyed step get there as columns; declined where they do not."""
    # A plan with windows of event time was checked for timestamps.
    routes = routes_to(step, stamped=False)
    has_sessions = False
    with suppress(DeclinedError):
        has_sessions = isinstance(step.node, WindowNode) and isinstance(shape_of(step.node), GapWindows)
    return RowForm(step, routes, aggregation, has_sessions)


def task_aggregation_of(step: Step) -> TaskAggregation:
    """Decides how tasks aggregate elements partially; declines functions that see single elements, or cannot merge."""
    node = step.node
    if not isinstance(node, WindowNode):
        raise DeclinedError("a process function sees each element")
    if isinstance(node.function, ReduceSpec):
        # It need not be associative.
        raise DeclinedError("what a reduce leaves need not stand for its elements")
    if not isinstance(node.function, AggregateSpec):
        raise DeclinedError("the function takes all elements of a window")
    shape_of(node)
    windows = windows_of(node)
    if node.allowed_lateness and isinstance(windows, Sessions):
        raise DeclinedError("each late element fires its window")
    assert isinstance(windows, (Slices, Sessions)), "the others have triggers that are asked at each element"
    if isinstance(windows, Slices) and windows.is_global:
        raise DeclinedError("the general operator runs the window of all time")
    function = node.function.aggregate
    if not function.can_merge:
        raise DeclinedError("the function has no merge")
    if _has_life(function):
        raise DeclinedError("the function is opened and closed where the step runs")
    sees_late = bool(node.allowed_lateness) or (node.late_tag is not None and isinstance(windows, Slices))
    aggregation = TaskAggregation(windows, function, sees_late)
    if aggregation.shares_slices and not function.can_share:
        raise DeclinedError("sliding windows share slices, and the function is not commutative")
    if isinstance(windows, Sessions) and not function.can_share:
        raise DeclinedError("sessions merge in the order of their births, and the function is not commutative")
    return aggregation


def _has_life(function: RichFunction) -> bool:
    """Returns whether a function wants to be opened or closed, which is done where the step runs."""
    if isinstance(function, Combined):
        return any(_has_life(member) for _, member in function.members)
    kind = type(function)
    if isinstance(function, DeclaredAggregate) and kind.open is DeclaredAggregate.open:
        # It opens its selectors.
        return any(isinstance(selector, RichFunction) for _, selector in function.declaration.selectors)
    return kind.open is not RichFunction.open or kind.close is not RichFunction.close

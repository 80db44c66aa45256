"""Hands elements to a keyed step as columns: they become objects there, or are aggregated partially before.

A step whose function is Python code needs objects. Made where the records are read, they would have to be pickled for
the exchange; as columns they cross it for next to nothing, and become objects right before the step takes them.

Where the function can merge, elements are aggregated by slice before the exchange, and one accumulator for many of
them crosses it: the windows that hold one element of a slice hold all. A tumbling window is one slice. Sliding windows
share theirs: an element is added once, and the accumulator of its slice is merged into each window after the
exchange. It pays where a task has several elements for each key and slice, which is known once they are grouped;
elsewhere they cross one by one.

A tumbling window has its elements in order of arrival either way: those of one task are folded in their order, and
``merge`` gets the earlier accumulator first. A sliding window has those of one slice after those of another, so its
function must say that order makes no difference.

Where late elements leave one by one, or fire their windows, those that may be behind the watermark when they arrive
cross one by one.

Elements of one key of which each is at most a gap later than the one before become one session where they are read,
if the function says the same and no element of the key may be behind the watermark when it arrives: whether one that is
behind is late depends on those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, islice
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import DeclaredAggregate
from windrow.functions import AggregateFunction, RichFunction
from windrow.plan import AggregateSpec, ReduceSpec, Step
from windrow.windows import TimeWindow
from windrow.windows.spec import FARTHEST
from windrow_runtime.operators.choose import loop_of_windows
from windrow_runtime.operators.copies import accumulator_maker
from windrow_runtime.operators.errors import USER_ERRORS, DeclinedError, call_description, raise_call_error
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import NOTHING, SessionColumns
from windrow_runtime.operators.windows.contents import AggregatedContents
from windrow_runtime.operators.windows.partials import Partials
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.forms.route import ExchangeRows, Route, RoutesTo, ScanTarget
from windrow_spark.columnar.rows.columns import python_values
from windrow_spark.columnar.rows.groups import Groups, Keys, cells_of, encode_keys, stable_hashes
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.session_runs import SessionRuns, session_runs
from windrow_spark.columnar.windows.sessions import may_be_behind, sessions_in_task
from windrow_spark.columnar.windows.step_windows import Sessions, windows_fired_at_end

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


class DistinctKeys(NamedTuple):
    """The keys of rows."""

    encoded: Keys
    values: list[Any]  # the different keys as Python values

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> DistinctKeys:
        """Returns the keys of rows that came through the exchange."""
        encoded = encode_keys(rows.column(0))
        return cls(encoded, python_values(encoded.distinct))

    def hashes(self) -> Iterable[tuple[Any, int]]:
        """The different keys, each with its hash."""
        return zip(self.values, stable_hashes(self.encoded.distinct).tolist(), strict=True)


class _Groups(NamedTuple):
    """Elements grouped by the accumulator that a task folds them into."""

    groups: Groups  # the accumulator of each element
    codes: Ints  # the key of each accumulator, by its number
    starts: list[int]
    ends: list[int]  # of sessions; none of slices


@dataclass(frozen=True)
class RowForm(ScanTarget):
    """A keyed step on Python objects whose elements get there as columns."""

    aggregation: TaskAggregation | None  # None: elements are not partially aggregated before the exchange

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
        return pa.array(stamps) if route.is_stamped else pa.nulls(len(stamps), pa.int64())

    def portions(self, rows: pa.RecordBatch, keys: DistinctKeys, operator: KeyedOperator) -> Iterator[RowPortion]:
        """Rows that came through the exchange: a few thousand at a time, or all if the operator takes runs of them."""
        distinct = np.fromiter(keys.values, dtype=object, count=len(keys.values))
        # Equal keys are one object, which makes it fast to look them up.
        of_rows = distinct[keys.encoded.codes].tolist()
        if isinstance(operator, SessionLoopOperator) and operator.takes_runs:
            yield SessionPortion(self, rows, of_rows)
            return
        for start in range(0, len(of_rows), _ROWS_AT_ONCE):
            yield RowPortion(self, rows.slice(start, _ROWS_AT_ONCE), of_rows[start : start + _ROWS_AT_ONCE])

    def values_of(self, rows: pa.RecordBatch) -> Iterator[Any]:
        """The elements of rows, made a few thousand at a time."""
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield from self.elements_of(rows.slice(start, _ROWS_AT_ONCE).columns[2:])

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
        folds = _groups_in(self.aggregation.windows, keys, stamps)
        least = _WORTH_SHARING if self.aggregation.shares_slices else _WORTH_IT
        if folds.groups.count * least > len(stamps):
            return None
        counts = folds.groups.sizes.tolist()
        in_order = rows.take(pa.array(folds.groups.order))
        values = self.values_of(in_order)
        distinct = python_values(keys.distinct)
        owners = [distinct[code] for code in folds.codes.tolist()]
        accumulators = self._accumulators(self.aggregation, values, owners, folds, counts)
        return folds.codes, Partials(owners, accumulators, folds.starts, folds.ends, counts)

    def _accumulators(
        self,
        aggregation: TaskAggregation,
        values: Iterator[Any],
        owners: Sequence[Any],
        folds: _Groups,
        counts: Sequence[int],
    ) -> list[Any]:
        """Folds elements; those of one accumulator lie side by side."""
        create, add = accumulator_maker(aggregation.function), aggregation.function.add
        accumulators: list[Any] = []
        value: Any = NOTHING
        try:
            for count in counts:
                value = NOTHING  # the accumulator is made for none
                accumulator = create()
                for value in islice(values, count):
                    accumulator = add(value, accumulator)
                accumulators.append(accumulator)
        except USER_ERRORS as error:
            start, windows = folds.starts[len(accumulators)], aggregation.windows
            if isinstance(windows, Slices):
                last = windows.last_windows(np.array([start]))
                start, end = int(windows.starts(last)[0]), int(windows.ends(last)[0])
            else:
                end = folds.ends[len(accumulators)]
            call = call_description(owners[len(accumulators)], window=TimeWindow(start, end), element=value)
            raise_call_error(self.step, error, call)
        return accumulators


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

    def pick(self, places: Sequence[int]) -> Self:
        """Returns the rows at some indices."""
        rows = self.rows.take(pa.array(places, pa.int64()))
        return replace(self, rows=rows, keys=[self.keys[place] for place in places])

    def feed(self, operator: KeyedOperator) -> None:
        """Gives the elements to an operator."""
        operator.process_batch(self.keys, self.values, self.timestamps)


class SessionPortion(RowPortion):
    """Elements for sessions of one gap with an aggregate function, which are added session by session."""

    __slots__ = ()

    def feed(self, operator: KeyedOperator) -> None:
        assert isinstance(operator, SessionLoopOperator), "no other operator gets such portions"
        stamps = self.rows.column(1)
        if stamps.null_count:
            super().feed(operator)
            return
        keys, distinct = DistinctKeys.of(self.rows)
        runs = session_runs(operator, keys, distinct, stamps.to_numpy())
        contents = self._folded(operator, runs, distinct)
        _store(operator.state.session_columns, runs, distinct, contents)
        if runs.one_by_one.any():
            operator.state.sessions_from_columns({distinct[code] for code in np.flatnonzero(runs.one_by_one).tolist()})
            rest = self.pick(np.flatnonzero(runs.one_by_one[keys.codes]).tolist())
            operator.take(rest.keys, rest.values, rest.timestamps)

    def _folded(self, operator: SessionLoopOperator, runs: SessionRuns, distinct: Sequence[Any]) -> list[Any]:
        """Adds elements to the contents of their sessions, and returns these."""
        aggregated, stored = operator.contents, operator.state.session_columns
        assert isinstance(aggregated, AggregatedContents), "no others take runs"
        add, create = aggregated.function.add, aggregated.create
        rows = self.rows.take(pa.array(runs.elements))
        values = self.form.values_of(rows)
        folded: list[Any] = []
        value: Any = None
        try:
            for count, index in zip(runs.counts, runs.stored, strict=True):
                contents = create() if index < 0 else stored.contents[index]
                for value in islice(values, count):
                    contents = add(value, contents)
                folded.append(contents)
        except USER_ERRORS as error:
            # The window is named as it was with the element that failed.
            number, left = len(folded), sum(1 for _ in values)
            begin, end = sum(runs.counts[:number]), rows.num_rows - left
            if begin == end:  # the accumulator was to be made
                (value,), end = self.form.elements_of(rows.slice(begin, 1).columns[2:]), begin + 1
            window = operator.window_with(rows.column(1)[begin:end].to_pylist(), runs.stored[number])
            key = distinct[runs.codes[number]]
            raise_call_error(self.form.step, error, call_description(key, window=window, element=value))
        return folded


def _store(sessions: SessionColumns, runs: SessionRuns, distinct: Sequence[Any], contents: Sequence[Any]) -> None:
    """Stores the contents and the bounds of sessions that got elements."""
    for index, start, end, accumulator in zip(runs.stored, runs.starts, runs.ends, contents, strict=True):
        if index >= 0:
            sessions.starts[index], sessions.ends[index], sessions.contents[index] = start, end, accumulator
    is_new = [index < 0 for index in runs.stored]
    keys = (distinct[code] for code in runs.codes)
    sessions.extend(*(compress(column, is_new) for column in (keys, runs.starts, runs.ends, contents)))


def row_form(step: Step, routes_to: RoutesTo, aggregation: TaskAggregation | None) -> RowForm:
    """Decides how the elements of a keyed step get there as columns; declined where they do not."""
    # A plan with windows of event time was checked for timestamps.
    return RowForm(step, routes_to(step, stamped=False), aggregation)


def task_aggregation_of(step: Step) -> TaskAggregation:
    """Decides how tasks aggregate elements partially; declines functions that see single elements, or cannot merge."""
    node = step.node.windows
    if node is None:
        raise DeclinedError("a process function sees each element")
    if isinstance(node.function, ReduceSpec):
        # The function need not be associative.
        raise DeclinedError("what a reduce leaves need not stand for its elements")
    if not isinstance(node.function, AggregateSpec):
        raise DeclinedError("the function takes all elements of a window")
    windows = windows_fired_at_end(node)
    if node.allowed_lateness and isinstance(windows, Sessions):
        raise DeclinedError("each late element fires its window")
    loop_of_windows(step, node)  # no other operator takes accumulators
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
    class_ = type(function)
    if isinstance(function, DeclaredAggregate) and class_.open is DeclaredAggregate.open:
        # An aggregate with `open` opens its selectors.
        return any(isinstance(selector, RichFunction) for _, selector in function.declaration.selectors)
    return class_.open is not RichFunction.open or class_.close is not RichFunction.close

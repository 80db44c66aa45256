"""Makes the results of windows that fired: record batches for sinks, or Python values for the steps behind.

Elements that come behind the watermark, within the allowed lateness, fire their windows again at once, so that each has
a result of its own; they are added one by one in Python, to what the state holds of their windows::

    watermark 12, lateness 10     windows |0----5|   |5---10|   |10---15|
    element at 3                           fires, again for each element
    element at 12                                                waits for 14
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from windrow.aggregates import DeclaredAggregate
from windrow.aggregates.arithmetic import Count
from windrow.aggregates.combined import Combined
from windrow.functions import AggregateFunction
from windrow.panes import Change, PaneInfo, PaneTiming, WindowResult
from windrow.time import MIN_TIMESTAMP
from windrow.windows import GlobalWindow, TimeWindow
from windrow_runtime.codecs.arrow.encoding import arrow_schema
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.records import own_constructor
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.columnar import Ints, Mask
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm
from windrow_runtime.columnar.kernels.kernel import same_input
from windrow_runtime.columnar.rows.columns import element_values, python_values
from windrow_runtime.columnar.state import Chunks
from windrow_runtime.columnar.windows.column_operator import KINDS, Fired
from windrow_runtime.columnar.windows.kinds import assigned_tiles
from windrow_runtime.columnar.windows.late import held_by_windows
from windrow_runtime.columnar.windows.sessions import Placed, TimeLine
from windrow_runtime.columnar.windows.tiles import TileOperator
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error

# Any in this module: keys, accumulators and results are of every type.

_Member: TypeAlias = tuple[Any, pa.Array]  # an aggregate and its results; None for a fact of the window
Stamped: TypeAlias = tuple[Any, int]  # a result, and its timestamp

_TIMINGS: Final = (PaneTiming.EARLY, PaneTiming.ON_TIME, PaneTiming.LATE)
"""Timings by their places in the columns of panes."""


def values_of(form: ColumnarForm, fired: Fired) -> list[Any]:
    """The results as the aggregate makes them: records, tuples or values; with their panes if these are asked for."""
    if fired.panes is not None:
        return _with_panes(form, fired, fired.panes)
    members, combined = _members(form, fired), form.combined
    return _made(form, fired, *members[0]) if combined is None else _combined(form, fired, combined, members)


def _with_panes(form: ColumnarForm, fired: Fired, pane_columns: pa.Array) -> list[Any]:
    """The results with their keys, windows and panes."""
    values = values_of(form, replace(fired, panes=None))
    timings, *facts = pane_columns.flatten()
    panes = map(PaneInfo, map(_TIMINGS.__getitem__, timings.to_pylist()), *(column.to_pylist() for column in facts))
    windows: Iterable[TimeWindow | GlobalWindow] = map(TimeWindow, fired.starts.tolist(), fired.ends.tolist())
    if _is_global(form):
        windows = repeat(GlobalWindow())
    return list(map(WindowResult, python_values(fired.keys), windows, panes, values))


def _made(form: ColumnarForm, fired: Fired, aggregate: Any, column: pa.Array) -> list[Any]:
    """The results of one member; a combination makes its own of those of its members."""
    if isinstance(aggregate, Combined):
        return _combined(form, fired, aggregate, _with_columns(aggregate, column))
    return element_values(column, form.element)


def _combined(
    form: ColumnarForm, fired: Fired, combined: Combined[Any, Any, Any, Any], members: Sequence[_Member]
) -> list[Any]:
    """The results of a combination. Where one is refused, the number of those before it leads to key and window."""
    rows = zip(*(_made(form, fired, aggregate, column) for aggregate, column in members), strict=True)
    names, target = [name for name, _ in combined.members], combined.target
    if target is None:
        return list(rows)
    made: list[Any] = []
    try:
        if names[0]:
            made.extend(target(**dict(zip(names, row, strict=True))) for row in rows)
        else:
            made.extend(target(*row) for row in rows)  # not starmap: extend would take a StopIteration for the end
    except USER_ERRORS as error:
        place = len(made)
        (key,) = python_values(fired.keys.slice(place, 1))
        given = fired_description(form, key, int(fired.starts[place]), int(fired.ends[place]))
        raise_call_error(form.step, error, given)
    return made


def fired_description(form: ColumnarForm, key: Any, start: int, end: int) -> str:
    """Key and window of a result, for errors."""
    return call_description(key, window=GlobalWindow() if _is_global(form) else TimeWindow(start, end))


def _is_global(form: ColumnarForm) -> bool:
    tiles = assigned_tiles(form.windows)
    return tiles is not None and tiles.is_global


def record_batch(form: ColumnarForm, fired: Fired, kind: RecordType) -> pa.RecordBatch | None:
    """The results as a record batch with the columns of a type; None where Python has to make them, or say why not."""
    if kind.root.python_type is Change:
        return _change_batch(form, fired, kind)
    if fired.kinds is not None:
        return None
    return _result_batch(form, fired, kind)


def _change_batch(form: ColumnarForm, fired: Fired, kind: RecordType) -> pa.RecordBatch | None:
    """Changes as a record batch: their kinds, and the results as one column."""
    of_value = record_type(get_args(kind.annotation)[0])
    values = _result_batch(form, fired, of_value)
    if values is None:
        return None
    kinds = np.zeros(len(fired), np.int64) if fired.kinds is None else fired.kinds
    schema = arrow_schema(kind)
    column = values.column(0)
    if not of_value.single:
        column = _struct(values.columns, schema.field("value").type)
    texts = pa.array([each.value for each in KINDS]).take(pa.array(kinds))
    return pa.RecordBatch.from_arrays([texts, column], schema=schema)


def _pane_batch(form: ColumnarForm, fired: Fired, pane_columns: pa.Array, kind: RecordType) -> pa.RecordBatch | None:
    """Results with their panes as a record batch: key, window, pane and result."""
    if kind.root.python_type is not WindowResult or get_args(kind.annotation)[1] is not TimeWindow:
        return None
    of_key, _, of_value = get_args(kind.annotation)
    schema, of_value = arrow_schema(kind), record_type(of_value)
    values = _result_batch(form, replace(fired, panes=None), of_value)
    root_key = record_type(of_key).root
    keys = _fitted(fired.keys, schema.field("key").type, nullable=root_key.nullable or root_key.kind is Kind.NONE)
    if values is None or keys is None:
        return None
    timings, *facts = pane_columns.flatten()
    timing = pa.array([each.value for each in _TIMINGS]).take(timings)
    window = _struct([pa.array(fired.starts), pa.array(fired.ends)], schema.field("window").type)
    pane = _struct([timing, *facts], schema.field("pane").type)
    value = values.column(0) if of_value.single else _struct(values.columns, schema.field("value").type)
    return pa.RecordBatch.from_arrays([keys, window, pane, value], schema=schema)


def _struct(columns: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _result_batch(form: ColumnarForm, fired: Fired, kind: RecordType) -> pa.RecordBatch | None:
    if fired.panes is not None:
        return _pane_batch(form, fired, fired.panes, kind)
    members = [column for _, column in _members(form, fired)]
    by_name = [field.name for field in kind.columns]
    if form.combined is None or form.combined.target is None:
        if (form.combined is not None) == kind.single:
            return None
    else:
        plain = kind.root.kind is Kind.RECORD and kind.root.python_type is form.combined.target
        if not plain or kind.root.nullable or own_constructor(kind.root.python_type) is not None:
            return None
        names = [name for name, _ in form.combined.members]
        if names[0]:
            if set(names) != set(by_name):
                return None  # what is left out has a default, which the class knows
            members = [members[names.index(name)] for name in by_name]
    if len(members) != len(by_name):
        return None
    schema = arrow_schema(kind)
    columns = [
        _fitted(column, wanted.type, nullable=field.type.nullable)
        for field, wanted, column in zip(kind.columns, schema, members, strict=True)
    ]
    if any(column is None for column in columns):
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, wanted: pa.DataType, *, nullable: bool) -> pa.Array | None:
    """A column of results as one of a sink; None where it may not hold them."""
    # A combination within a combination is made in Python: its target may refuse. So is an element: the sink may ask
    # for another class with the same columns.
    items = column.type.value_type if pa.types.is_list(column.type) else column.type
    if (column.null_count and not nullable) or pa.types.is_struct(items):
        return None
    if column.type == wanted:
        return column
    if pa.types.is_integer(column.type) and pa.types.is_floating(wanted):
        return column.cast(wanted, safe=False)
    if pa.types.is_decimal256(column.type) and pa.types.is_decimal128(wanted):
        try:
            return column.cast(wanted)
        except pa.ArrowException:
            return None  # a sum has more digits than the column
    return None


def _members(form: ColumnarForm, fired: Fired) -> list[_Member]:
    """The members of the result; one where the aggregate stands alone."""
    members: list[_Member] = [(form.aggregate, fired.results)]
    if isinstance(form.aggregate, Combined):
        members = _with_columns(form.aggregate, fired.results)
    if form.filled is None:
        return members
    facts = {"key": fired.keys, "window_start": pa.array(fired.starts), "window_end": pa.array(fired.ends)}
    return [members[place] if isinstance(place, int) else (None, facts[place]) for place in form.filled.places]


def _with_columns(combined: Combined[Any, Any, Any, Any], column: pa.Array) -> list[_Member]:
    return [(member, child) for (_, member), child in zip(combined.members, column.flatten(), strict=True)]


class RowAggregate:
    """The aggregate of a step over rows that hold side by side what its kernel takes from an element."""

    def __init__(self, form: ColumnarForm) -> None:
        self.form = form
        self.function = _on_rows(form.aggregate, form.kernel.inputs)

    def rows(self, inputs: Sequence[pa.Array], count: int) -> list[tuple[Any, ...]]:
        """The rows of ``count`` elements, from the columns that the kernel takes."""
        if not inputs:
            return [()] * count
        return list(zip(*(element_values(column, self.form.element) for column in inputs), strict=True))

    def accumulators(self, states: Sequence[pa.Array]) -> list[Any]:
        """The accumulators that columns of states stand for."""
        return self.form.kernel.accumulators(states, lambda column: element_values(column, self.form.element))

    def result(self, key: Any, start: int, end: int, accumulator: Any) -> Any:
        """The result of a window; where a class refuses its fields, the error has key and window."""
        form, filled = self.form, self.form.filled
        try:
            result = self.function.get_result(accumulator)
            if filled is None:
                return result
            facts = {"key": key, "window_start": start, "window_end": end}
            places = filled.places
            return filled.made_of([result[place] if isinstance(place, int) else facts[place] for place in places])
        except USER_ERRORS as error:
            raise_call_error(form.step, error, fired_description(form, key, start, end))


def _on_rows(aggregate: AggregateFunction[Any, Any, Any], selectors: Sequence[Any]) -> AggregateFunction[Any, Any, Any]:
    if isinstance(aggregate, Combined):
        members = tuple((name, _on_rows(member, selectors)) for name, member in aggregate.members)
        return Combined(members, aggregate.target)
    assert isinstance(aggregate, DeclaredAggregate), "no other has a kernel"
    assert dataclasses.is_dataclass(aggregate), "declared aggregates are"
    places = {same_input(selector): itemgetter(place) for place, selector in enumerate(selectors)}
    declared = [selector for _, selector in aggregate.declaration.selectors]
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(aggregate):
        held = getattr(aggregate, field.name)
        # Without a selector it takes the element; only a count does not care what it is.
        takes_element = field.name == "selector" and held is None and not isinstance(aggregate, Count)
        if takes_element or any(held is selector for selector in declared):
            changes[field.name] = places[same_input(held)]
    return dataclasses.replace(aggregate, **changes)


def fire_late_rows(
    operator: TileOperator,
    aggregate: RowAggregate,
    chunks: Chunks,
    keys: pa.Array,
    tiles: Ints,
    inputs: Sequence[pa.Array],
    watermark: int,
) -> Iterator[Stamped]:
    """The results of windows that fire for late elements, which are added in Python to what the windows hold.

    They are those of :func:`~windrow_runtime.columnar.windows.late.fire_late`, which copies a state for each firing.
    """
    windows, function = operator.windows, aggregate.function
    places, starts = windows.windows(tiles, max(watermark - windows.lateness, MIN_TIMESTAMP), watermark)
    if not len(places):
        return
    held: dict[tuple[Any, int], Any] = {}
    if not windows.purges:
        distinct = keys.take(pa.array(places)).unique()
        held_keys, held_starts, states = held_by_windows(operator, chunks, distinct, starts)
        pairs = zip(python_values(held_keys), held_starts.tolist(), strict=True)
        held = dict(zip(pairs, aggregate.accumulators(states), strict=True))
    key_values = python_values(keys)
    rows = aggregate.rows(inputs, len(key_values))
    # Of each element the later windows come first, as they are assigned.
    for place, start in zip(places.tolist(), starts.tolist(), strict=True):
        at = (key_values[place], start)
        accumulator = held[at] if at in held else function.create_accumulator()
        accumulator = function.add(rows[place], accumulator)
        if not windows.purges:
            held[at] = accumulator
        end = start + windows.size
        yield aggregate.result(*at, end, accumulator), end - 1


def fire_late_sessions(
    aggregate: RowAggregate, rows: pa.RecordBatch, placed: Placed, inputs: Sequence[pa.Array], watermark: int
) -> Iterator[Stamped]:
    """The results of sessions that fire for elements, in order of the elements.

    The elements were placed among the sessions ``rows``, and the kernel takes ``inputs`` from them. An element fires
    its session at once where that ends behind the watermark, with all that is in it so far; where it reaches ahead, the
    session waits::

        gap 10, watermark 50, lateness 40
        kept          |5--------18|      |30--------45|  fired
        element at 14             fires [5, 24)
        element at 22                    fires [5, 45): both in one
        element at 44                                    [5, 54) waits for 53
    """
    behind = placed.ends - 1 <= watermark
    chosen = _where_some_fire(placed, behind)
    if not chosen.any():
        return
    # What reaches ahead never fires here, nor does what it becomes part of: its contents do not matter.
    counted = np.flatnonzero(chosen & behind)
    sessions, elements = counted[counted < placed.known], counted[counted >= placed.known]
    states = [column.take(pa.array(sessions)) for column in rows.columns[3:]]
    taken = [column.take(pa.array(elements - placed.known)) for column in inputs]
    accumulators = dict(zip(sessions.tolist(), aggregate.accumulators(states), strict=True))
    contents = dict(zip(elements.tolist(), aggregate.rows(taken, len(elements)), strict=True))
    function = aggregate.function
    keys = python_values(placed.keys.distinct)
    starts, ends = placed.starts.tolist(), placed.ends.tolist()
    # The sessions of each owner: when each was born, and what it holds.
    lines: defaultdict[int, TimeLine[tuple[int, Any]]] = defaultdict(TimeLine)
    for row, owner in zip(np.flatnonzero(chosen).tolist(), placed.owners[chosen].tolist(), strict=True):
        line = lines[owner]
        start, end, held = line.take(starts[row], ends[row])
        held.sort(key=itemgetter(0))
        accumulator = None
        if row < placed.known:
            accumulator = accumulators.get(row)
        elif end - 1 <= watermark:
            parts = [part for _, part in held]
            accumulator = reduce(function.merge, parts) if parts else function.create_accumulator()
            accumulator = function.add(contents[row], accumulator)
            yield aggregate.result(keys[placed.keys.codes[row]], start, end, accumulator), end - 1
        line.put(start, end, (held[0][0] if held else row, accumulator))


def _where_some_fire(placed: Placed, behind: Mask) -> Mask:
    """The rows of sessions in which an element may fire: all that were there when it came are among them."""
    count = int(placed.owners.max()) + 1
    is_known = np.arange(len(behind)) < placed.known
    # An element that touches a known session which reaches ahead waits with it.
    ahead = np.full(count, np.iinfo(np.int64).max)
    reaching = is_known & ~behind
    np.minimum.at(ahead, placed.owners[reaching], placed.starts[reaching])
    fires = ~is_known & placed.kept & behind & (placed.ends < ahead[placed.owners])
    wanted = np.zeros(count, np.bool_)
    wanted[placed.owners[fires]] = True
    return wanted[placed.owners] & placed.kept

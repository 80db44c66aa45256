"""The rows of keyed windows that fire panes, as columns side by side, and what they have fired so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.triggers.composable import AfterCount, AfterProcessingTime
from windrow.windows.spec import FARTHEST, Condition, Panes
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups
from windrow_spark.columnar.windows.column_operator import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from windrow_spark.columnar.windows.keyed_windows import KeyedWindows

EARLY: Final = 0  # the end of the window has fired no pane; where it never does, no pane has come after the end
ENDED: Final = 1  # the end of the window has fired its pane
LATE: Final = 2  # another pane has come after that one; where the end fires none, a pane has come after the end
FINISHED: Final = 3  # no other pane will come

UNSET: Final = np.iinfo(np.int64).max
"""Stands for no timer of the clock: the keyed window waits for no time."""

ON_TIME: Final = 1
"""The index of panes on time among timings, between early and late ones."""


class _Column(NamedTuple):
    """A column of numbers of keyed windows."""

    lowest: int = 0  # the lowest and the highest number that may be stored
    highest: int = FARTHEST
    of_new: int = 0  # its value in keyed windows that are new
    kind: type[np.generic] = np.int64  # how it is computed with; flags and phases are stored in 8 bits

    @property
    def stored(self) -> pa.DataType:
        return pa.int64() if self.kind is np.int64 else pa.int8()


_FLAG: Final = _Column(highest=1, kind=np.bool_)
_TIME: Final = _Column(lowest=-UNSET - 1, highest=UNSET, of_new=UNSET)
_COLUMNS: Final = {
    "number": _Column(),
    "phase": _Column(EARLY, FINISHED, EARLY, np.int8),
    "fresh": _FLAG,
    "count": _Column(),
    "due": _TIME,
    "asked": _TIME,
    "since": _Column(),
}
_OF_PANES: Final = {"index": _Column(), "nonspeculative": _Column(), "in_time": _FLAG}
_OF_SHOWN: Final = {"has_shown": _FLAG}
_ALL_COLUMNS: Final = _COLUMNS | _OF_PANES | _OF_SHOWN

WINDOW_COLUMNS: Final = ("start", *_COLUMNS)
"""The columns between the key and those of the kernel."""

_PANE: Final = pa.struct(
    [
        ("timing", pa.int8()),
        ("index", pa.int64()),
        ("nonspeculative_index", pa.int64()),
        ("is_first", pa.bool_()),
        ("is_last", pa.bool_()),
    ]
)
_T = TypeVar("_T", np.bool_, np.int8, np.int64)


class FiredPanes(NamedTuple):
    """Panes in the order of firing, each after the withdrawal of the pane that it replaces."""

    keyed_windows: Ints
    results: pa.Array
    panes: pa.Array | None  # the pane info of each result; None: the step does not ask for it
    kinds: Ints | None  # indices of the kinds of changes in KINDS; None: results are no changes


def pane_fields(rules: Panes, fields: Sequence[pa.Field], result: pa.DataType) -> list[pa.Field]:
    """Adds the columns of panes to those that all operators on keyed windows have."""
    columns = [field.with_type(_COLUMNS[field.name].stored) if field.name in _COLUMNS else field for field in fields]
    if rules.with_panes:
        columns += [pa.field(name, column.stored) for name, column in _OF_PANES.items()]
    if rules.retracts:
        columns.append(pa.field("shown", _shown_type(rules, result)))
        columns += [pa.field(name, column.stored) for name, column in _OF_SHOWN.items()]
    return columns


def fault_in(rows: pa.RecordBatch) -> str | None:
    """Describes the first fault in stored rows; None: there is none."""
    for name, expected in {"start": _Column(-2 * FARTHEST, 2 * FARTHEST), **_ALL_COLUMNS}.items():
        index = rows.schema.get_field_index(name)
        if index < 0:
            continue
        column = rows.column(index)
        if column.null_count:
            return f"a row without {name}"
        values = column.to_numpy()
        if len(values) and not expected.lowest <= values.min() <= values.max() <= expected.highest:
            return f"a row with {name} {values.min()} to {values.max()}"
    return None


def _shown_type(rules: Panes, result: pa.DataType) -> pa.DataType:
    return pa.struct([("result", result), ("pane", _PANE)]) if rules.with_panes else result


_FAR: Final = 1 << 62
"""No keyed window gets this many elements."""


class ActiveConditions:
    """Tells what keyed windows wait for: the early condition or the late one."""

    def __init__(self, rules: Panes, now: int, late: Mask) -> None:
        def by_condition(number: Callable[[Condition | None], int]) -> Ints:
            """Returns a number for each keyed window, by its condition."""
            return np.where(late & rules.at_end, number(rules.late), number(rules.early))

        def every(condition: Condition | None) -> int:
            """Returns after how many elements a condition fires a pane: 1 if its time is up."""
            if isinstance(condition, AfterCount):
                return condition.count
            return 1 if target(condition) <= now else _FAR

        def target(condition: Condition | None) -> int:
            return condition.target_of(now) if isinstance(condition, AfterProcessingTime) else UNSET

        self.every = by_condition(every)
        self.targets = by_condition(target)
        self.counts = by_condition(lambda condition: isinstance(condition, AfterCount)) > 0
        self.is_timed = by_condition(lambda condition: isinstance(condition, AfterProcessingTime)) > 0
        # Until the first late pane both conditions have observed the same elements, so the earlier target has a timer;
        # from then on the late one alone begins anew.
        self.first_target = min(target(rules.early), target(rules.late))


@dataclass(slots=True)
class PaneRows:
    """The rows of keyed windows, as columns side by side."""

    keys: pa.Array
    starts: Ints  # of windows; of no meaning for the window of all time
    states: list[pa.Array]  # of no meaning where the keyed window has finished, or discards and has nothing new
    rows: Ints  # the index of each keyed window's row of state; -1: it is new
    shown: pa.Array | None  # the results that the next panes withdraw, where ``has_shown``; None: nothing is withdrawn
    number: Ints  # ascend in the order in which the keyed windows of a key began; 0 where cleanups fire no pane
    phase: NDArray[np.int8]
    fresh: Mask  # whether elements have come since the last pane
    count: Ints  # how many have come since the active condition began, where it counts them
    due: Ints  # the time at which the clock fires a pane
    asked: Ints  # the time of the earliest timer of the clock: that of the other condition may be before ``due``
    since: Ints  # ascend in the order in which ``due`` was set
    index: Ints  # how many panes have fired; this and the next two only where results carry their panes
    nonspeculative: Ints  # how many of them were not early
    in_time: Mask  # whether an element since the last pane came before the time of the window was over
    has_shown: Mask

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> PaneRows:
        """Takes the columns of rows of state; numpy must not write them, as their memory is Arrow's."""
        named, count = dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows
        keys, starts, shown = named.pop("key"), named.pop("start"), named.pop("shown", None)
        # Any: flags, phases and numbers.
        facts: dict[str, Any] = {
            name: named.pop(name).to_numpy().astype(column.kind, copy=False)
            if name in named
            else np.full(count, column.of_new, column.kind)
            for name, column in _ALL_COLUMNS.items()
        }
        return cls(keys, starts.to_numpy(), list(named.values()), np.arange(count), shown, **facts)

    def columns(self, schema: pa.Schema) -> list[pa.Array]:
        """Returns the columns as they are stored."""
        states = iter(self.states)
        stored = {"key": self.keys, "start": pa.array(self.starts), "shown": self.shown}
        return [
            pa.array(getattr(self, field.name).astype(field.type.to_pandas_dtype(), copy=False))
            if field.name in _ALL_COLUMNS
            else (stored[field.name] if field.name in stored else next(states))
            for field in schema
        ]

    def by_keyed_window(self, keyed_windows: KeyedWindows) -> PaneRows:
        """Spreads the rows over the keyed windows of a batch, of which some are new; the states stay by row."""
        of_rows, count = keyed_windows.of_rows[: len(self.starts)], len(keyed_windows.keys)

        def spread(column: NDArray[_T], of_new: int) -> NDArray[_T]:
            by_window = np.full(count, of_new, column.dtype)
            by_window[of_rows] = column
            return by_window

        rows = spread(self.rows, -1)
        shown = None if self.shown is None else self.shown.take(pa.array(rows, mask=rows < 0))
        # Any: flags, phases and numbers.
        facts: dict[str, Any] = {
            name: spread(getattr(self, name), column.of_new) for name, column in _ALL_COLUMNS.items()
        }
        return PaneRows(keyed_windows.keys, keyed_windows.starts, self.states, rows, shown, **facts)

    def wait_for_none(self, keyed_windows: Mask) -> None:
        """Clears the timers of the clock of the marked keyed windows."""
        self.due = np.where(keyed_windows, UNSET, self.due)
        self.asked = np.where(keyed_windows, UNSET, self.asked)
        self.since = np.where(keyed_windows, 0, self.since)

    def fire_panes(
        self, rules: Panes, windows: Ints, results: pa.Array, *, over: Mask, at_end: Mask, are_last: Mask
    ) -> FiredPanes:
        """Fires panes in order, and records how many there were and what they show.

        Args:
            rules: How the windows of the step fire panes.
            windows: The keyed window of each.
            results: What each holds.
            over: Marks the keyed windows whose time is over.
            at_end: Marks the panes that come at the end of their window.
            are_last: Marks the panes that no other one of their window follows.
        """
        keyed_windows, panes, kinds = Groups(windows, len(self.starts)), None, None
        if rules.with_panes:
            panes = self._placed(keyed_windows, over, at_end, are_last)
        if self.shown is not None:
            if panes is not None:
                results = pa.StructArray.from_arrays([results, panes], fields=list(self.shown.type))
            windows, results, kinds = self._with_withdrawals(keyed_windows, results)
            if panes is not None:
                results, panes = results.flatten()
        return FiredPanes(windows, results, panes, kinds)

    def _placed(self, keyed_windows: Groups, over: Mask, at_end: Mask, are_last: Mask) -> pa.Array:
        """Computes the pane info of each result, and counts the panes of each window."""
        windows = keyed_windows.ids
        ranks = keyed_windows.ranks
        index, nonspeculative = self.index[windows] + ranks, self.nonspeculative[windows] + ranks
        is_on_time = (nonspeculative == 0) & (at_end | self.in_time[windows])
        timing = np.where(over[windows], np.where(is_on_time, ON_TIME, ON_TIME + 1), 0).astype(np.int8)
        nonspeculative = np.where(over[windows], nonspeculative, -1)
        self.index = self.index + keyed_windows.sizes
        self.nonspeculative = self.nonspeculative + keyed_windows.sizes * over
        self.in_time = self.in_time & (keyed_windows.sizes == 0)
        return pa.StructArray.from_arrays(
            [pa.array(column) for column in (timing, index, nonspeculative, index == 0, are_last)], fields=list(_PANE)
        )

    def _with_withdrawals(self, keyed_windows: Groups, results: pa.Array) -> tuple[Ints, pa.Array, Ints]:
        """Puts a withdrawal before each result that replaces one; returns windows, results and kinds.

        Records the result that each keyed window shows from then on.
        """
        of_results, count = keyed_windows.ids, keyed_windows.count
        replaced = np.where(self.has_shown, np.arange(count), -1)[of_results]
        # After another pane of its keyed window, a pane replaces that one.
        order = keyed_windows.order
        same = np.flatnonzero(of_results[order][1:] == of_results[order][:-1])
        replaced[order[same + 1]] = count + order[same]
        withdraws = replaced >= 0
        places = np.arange(len(of_results)) + np.cumsum(withdraws)
        source = np.empty(len(of_results) + int(withdraws.sum()), np.int64)
        kinds, windows = np.empty(len(source), np.int64), np.empty(len(source), np.int64)
        source[places], windows[places] = np.arange(count, count + len(of_results)), of_results
        kinds[places] = np.where(withdraws, UPDATE_AFTER, INSERT)
        withdrawals = places[withdraws] - 1
        source[withdrawals], windows[withdrawals], kinds[withdrawals] = (
            replaced[withdraws],
            of_results[withdraws],
            UPDATE_BEFORE,
        )
        both = pa.concat_arrays([self.shown, results])
        has_new = keyed_windows.sizes > 0
        newest = np.where(has_new, count + keyed_windows.last_rows, np.arange(count))
        self.shown, self.has_shown = both.take(pa.array(newest)), self.has_shown | has_new
        return windows, both.take(pa.array(source)), kinds

"""The rows of keyed windows that fire panes, as columns side by side, and what they have fired so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.windows.spec import FARTHEST, Panes
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups
from windrow_spark.columnar.windows.column_operator import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from windrow_spark.columnar.windows.keyed_windows import KeyedWindows

WINDOW_COLUMNS: Final = ("start", "number", "phase", "fresh", "count", "due", "asked", "since")
"""The columns between the key and those of the kernel."""

EARLY: Final = 0  # the end of the window has fired no pane; where it never does, no pane has come after the end
ENDED: Final = 1  # the end of the window has fired its pane
LATE: Final = 2  # another pane has come after that one; where the end fires none, a pane has come after the end
FINISHED: Final = 3  # no other pane will come

UNSET: Final = np.iinfo(np.int64).max
"""Stands for no timer of the clock: the keyed window waits for no time."""

ON_TIME: Final = 1
"""The index of panes on time among timings, between early and late ones."""

_SMALL: Final = {"phase": pa.int8(), "fresh": pa.int8()}
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
    columns = [field.with_type(_SMALL.get(field.name, field.type)) for field in fields]
    if rules.with_panes:
        columns += [pa.field(name, pa.int64()) for name in ("index", "nonspeculative")]
        columns.append(pa.field("in_time", pa.int8()))
    if rules.retracts:
        columns += [pa.field("shown", _shown_type(rules, result)), pa.field("has_shown", pa.int8())]
    return columns


_BOUNDS: Final = {
    "start": (-2 * FARTHEST, 2 * FARTHEST),
    "number": (0, FARTHEST),
    "phase": (EARLY, FINISHED),
    "fresh": (0, 1),
    "count": (0, FARTHEST),
    "since": (0, FARTHEST),
    "index": (0, FARTHEST),
    "nonspeculative": (0, FARTHEST),
    "in_time": (0, 1),
    "has_shown": (0, 1),
}
"""The lowest and the highest number that each column may hold."""


def fault_in(rows: pa.RecordBatch) -> str | None:
    """Describes the first fault in stored rows; None: there is none."""
    for name, (lowest, highest) in _BOUNDS.items():
        index = rows.schema.get_field_index(name)
        if index < 0:
            continue
        column = rows.column(index)
        if column.null_count:
            return f"a row without {name}"
        values = column.to_numpy()
        if len(values) and not lowest <= values.min() <= values.max() <= highest:
            return f"a row with {name} {values.min()} to {values.max()}"
    return None


def _shown_type(rules: Panes, result: pa.DataType) -> pa.DataType:
    return pa.struct([("result", result), ("pane", _PANE)]) if rules.with_panes else result


@dataclass(slots=True)
class PaneRows:
    """The rows of keyed windows, as columns side by side."""

    keys: pa.Array
    starts: Ints  # of windows; of no meaning for the window of all time
    numbers: Ints  # ascend in the order in which the keyed windows of a key began; 0 where cleanups fire no pane
    phases: NDArray[np.int8]
    fresh: Mask  # whether elements have come since the last pane
    counts: Ints  # how many have come since the active condition began, where it counts them
    due: Ints  # the time at which the clock fires a pane
    asked: Ints  # the time of the earliest timer of the clock: that of the other condition may be before ``due``
    since: Ints  # ascend in the order in which ``due`` was set
    states: list[pa.Array]  # of no meaning where the keyed window has finished, or discards and has nothing new
    index: Ints  # how many panes have fired; this and the next two only where results carry their panes
    nonspeculative: Ints  # how many of them were not early
    in_time: Mask  # whether an element since the last pane came before the time of the window was over
    shown: pa.Array | None  # the results that the next panes withdraw, where ``has_shown``; None: nothing is withdrawn
    has_shown: Mask
    rows: Ints  # the index of each keyed window's row of state; -1: it is new

    @classmethod
    def of(cls, rows: pa.RecordBatch, rules: Panes) -> PaneRows:
        """Takes the columns of rows of state; numpy must not write them, as their memory is Arrow's."""
        columns = iter(rows.columns)
        key = next(columns)
        starts, numbers, phases, fresh, counts, due, asked, since = (next(columns).to_numpy() for _ in WINDOW_COLUMNS)
        rest = list(columns)
        none, no = np.zeros(rows.num_rows, np.int64), np.zeros(rows.num_rows, np.bool_)
        shown, has_shown, index, nonspeculative, in_time = None, no, none, none, no
        if rules.retracts:
            *rest, shown, marks = rest
            has_shown = marks.to_numpy() > 0
        if rules.with_panes:
            *rest, indexes, others, times = rest
            index, nonspeculative, in_time = indexes.to_numpy(), others.to_numpy(), times.to_numpy() > 0
        return cls(
            keys=key,
            starts=starts,
            numbers=numbers,
            phases=phases,
            fresh=fresh > 0,
            counts=counts,
            due=due,
            asked=asked,
            since=since,
            states=rest,
            index=index,
            nonspeculative=nonspeculative,
            in_time=in_time,
            shown=shown,
            has_shown=has_shown,
            rows=np.arange(rows.num_rows),
        )

    def columns(self, rules: Panes) -> list[pa.Array]:
        """Returns the columns as they are stored."""
        ints = [self.starts, self.numbers, self.phases, self.fresh.astype(np.int8)]
        ints += [self.counts, self.due, self.asked, self.since]
        stored = [self.keys, *map(pa.array, ints), *self.states]
        if rules.with_panes:
            stored += map(pa.array, (self.index, self.nonspeculative, self.in_time.astype(np.int8)))
        if self.shown is not None:
            stored += [self.shown, pa.array(self.has_shown.astype(np.int8))]
        return stored

    def by_keyed_window(self, keyed_windows: KeyedWindows) -> PaneRows:
        """Spreads the rows over the keyed windows of a batch, of which some are new; the states stay by row."""
        of_rows, count = keyed_windows.of_rows[: len(self.starts)], len(keyed_windows.keys)

        def spread(column: NDArray[_T], of_new: int) -> NDArray[_T]:
            by_window = np.full(count, of_new, column.dtype)
            by_window[of_rows] = column
            return by_window

        source_rows = spread(self.rows, -1)
        return replace(
            self,
            keys=keyed_windows.keys,
            starts=keyed_windows.starts,
            numbers=spread(self.numbers, 0),
            phases=spread(self.phases, EARLY),
            fresh=spread(self.fresh, 0),
            counts=spread(self.counts, 0),
            due=spread(self.due, UNSET),
            asked=spread(self.asked, UNSET),
            since=spread(self.since, 0),
            index=spread(self.index, 0),
            nonspeculative=spread(self.nonspeculative, 0),
            in_time=spread(self.in_time, 0),
            shown=None if self.shown is None else self.shown.take(pa.array(source_rows, mask=source_rows < 0)),
            has_shown=spread(self.has_shown, 0),
            rows=source_rows,
        )

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
        ranks = np.empty(len(windows), np.int64)
        ranks[keyed_windows.order] = np.arange(len(windows)) - keyed_windows.starts[windows[keyed_windows.order]]
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

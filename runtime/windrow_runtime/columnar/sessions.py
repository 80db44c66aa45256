"""Sessions over columns.

State is a row for each session that is open: key, start, end, and what the aggregate holds of its elements. The
elements of a batch and the sessions of their keys are sorted by key and start; a session ends where none touches it::

    gap 10        open session   |5-------------18|
    elements      17                             |17----27|
                  40                                            |40----50|
    sessions      |5------------------------------------27|     |40----50|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from windrow.time import MIN_TIMESTAMP
from windrow_runtime.columnar.grouping import encode_keys
from windrow_runtime.columnar.groups import Groups
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.outcome import Fired
from windrow_runtime.columnar.panes import concatenated, no_rows

__all__ = ["Added", "SessionOperator", "Sessions"]

# Any in this module: pyarrow has no types.

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of a step.

    Attributes:
        gap: How long without elements ends a session, in milliseconds.
    """

    gap: int


class Added(NamedTuple):
    """What became of elements.

    Attributes:
        rows: The open sessions.
        late: Which elements were late.
    """

    rows: Any
    late: Mask


@dataclass(frozen=True)
class SessionOperator:
    """Runs a step on some keys at a time.

    Attributes:
        windows: The sessions.
        kernel: The aggregate.
        key_type: The Arrow type of keys.
    """

    windows: Sessions
    kernel: Kernel
    key_type: Any

    @cached_property
    def schema(self) -> Any:
        """The columns of state: key, start, end, and the kernel's."""
        import pyarrow as pa

        fields = [pa.field("key", self.key_type), pa.field("start", pa.int64()), pa.field("end", pa.int64())]
        fields += [pa.field(f"s{place}", kind) for place, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)

    def advance(self, rows: Any, watermark: int) -> tuple[Fired | None, Any]:
        """What fires when the watermark advances, and the sessions that stay open."""
        import pyarrow as pa

        ends = _ints(rows, 2)
        due = ends - 1 <= watermark
        if not due.any():
            return None, rows
        chosen = np.flatnonzero(due)
        chosen = chosen[np.argsort(ends[chosen], kind="stable")]
        taken = rows.take(pa.array(chosen))
        fired = Fired(
            keys=taken.column(0),
            starts=_ints(taken, 1),
            ends=_ints(taken, 2),
            stamps=_ints(taken, 2) - 1,
            results=self.kernel.results(taken.columns[3:]),
        )
        return fired, rows.filter(pa.array(~due))

    def add(self, rows: Any, keys: Any, stamps: Ints, inputs: Sequence[Any], watermark: int) -> Added:
        """Takes elements, in order of arrival.

        Args:
            rows: The open sessions of the keys, all of which end behind the watermark.
            keys: The keys of the elements.
            stamps: Their timestamps in milliseconds.
            inputs: What the kernel takes from them.
            watermark: The watermark. An element that is behind it with its whole gap, and touches no open session, is
                late.
        """
        import pyarrow as pa

        known = rows.num_rows
        encoded = encode_keys(pa.concat_arrays([rows.column(0), keys]))
        starts = np.concatenate([_ints(rows, 1), stamps])
        ends = np.concatenate([_ints(rows, 2), stamps + self.windows.gap])
        is_new = np.arange(len(starts)) >= known
        order = np.lexsort((starts, encoded.codes))
        owners = _owners(encoded.codes, starts, ends, is_new, order)
        behind = is_new & (ends - 1 <= watermark)
        late = np.zeros(len(starts), np.bool_)
        if behind.any():
            owners, late = _without_late(owners, starts, ends, behind, known)
        kept = ~late
        return Added(self._sessions(rows, encoded, starts, ends, owners, kept, inputs), late[known:])

    def _sessions(
        self,
        rows: Any,
        encoded: Any,
        starts: Ints,
        ends: Ints,
        owners: Ints,
        kept: Mask,
        inputs: Sequence[Any],
    ) -> Any:
        """One row for each owner that has anything."""
        import pyarrow as pa

        known = rows.num_rows
        found, ids = np.unique(owners[kept], return_inverse=True)
        count = len(found)
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, MIN_TIMESTAMP)
        np.minimum.at(first, ids, starts[kept])
        np.maximum.at(last, ids, ends[kept])
        codes = np.zeros(count, np.int64)
        codes[ids] = encoded.codes[kept]
        of_new = ids[known:]
        fresh, fresh_ids = np.unique(of_new, return_inverse=True)
        if kept[known:].all():
            columns = list(inputs)
        else:
            columns = [column.filter(pa.array(kept[known:])) for column in inputs]
        states = self.kernel.partial(Groups(fresh_ids, len(fresh)), columns)
        if known:
            both = [pa.concat_arrays([old, new]) for old, new in zip(rows.columns[3:], states, strict=True)]
            states = self.kernel.merge(Groups(np.concatenate([ids[:known], fresh]), count), both)
        keys = encoded.distinct.take(pa.array(codes))
        return pa.RecordBatch.from_arrays(
            [keys, pa.array(first), pa.array(last), *states], schema=self.schema
        )

    def due(self, rows: Any) -> int:
        """When the first of some sessions ends."""
        return int(_ints(rows, 2).min()) - 1

    def merged(self, parts: Sequence[Any]) -> Any:
        """Rows of several pages as one."""
        return concatenated([no_rows(self.schema), *parts])


def _ints(rows: Any, column: int) -> Ints:
    found: Ints = rows.column(column).to_numpy()
    return found


def _owners(codes: Ints, starts: Ints, ends: Ints, is_new: Mask, order: Ints) -> Ints:
    """The number of the session that each row falls into, were there no late elements."""
    if not len(order):
        return order
    codes, starts, ends, is_new = codes[order], starts[order], ends[order], is_new[order]
    places = np.arange(len(order))
    first_of_key = np.concatenate([[True], codes[1:] != codes[:-1]])
    key_began = np.maximum.accumulate(np.where(first_of_key, places, 0))
    # Open sessions of a key do not touch, and gaps are alike: so in each of the two kinds ends rise with starts.
    reached = np.full(len(order), MIN_TIMESTAMP)
    for kind in (is_new, ~is_new):
        latest = np.maximum.accumulate(np.where(kind, places, -1))
        reached = np.where(latest >= key_began, np.maximum(reached, ends[latest]), reached)
    begins = first_of_key.copy()
    begins[1:] |= starts[1:] > reached[:-1]
    owners = np.empty(len(order), np.int64)
    owners[order] = np.cumsum(begins) - 1
    return owners


def _without_late(owners: Ints, starts: Ints, ends: Ints, behind: Mask, known: int) -> tuple[Ints, Mask]:
    """Leaves out elements that were late when they arrived, and what only they had held together.

    Whether an element behind the watermark is late depends on what had arrived before it. Where all elements of a
    session are behind, none of them ever touched an open one; mixed ones are gone through in order of arrival.
    """
    count = int(owners.max()) + 1
    of_session = np.bincount(owners, minlength=count)
    behind_in = np.bincount(owners[behind], minlength=count)
    late = behind & (behind_in == of_session)[owners]
    mixed = (behind_in > 0) & (behind_in < of_session)
    rows = np.flatnonzero(mixed[owners])
    rows = rows[np.argsort(owners[rows], kind="stable")]
    owners = owners.copy()
    for part in np.split(rows, np.flatnonzero(np.diff(owners[rows])) + 1) if len(rows) else ():
        _replay(part.tolist(), owners, starts, ends, behind, late, count)
        count += len(part)
    return owners, late


def _replay(
    rows: list[int], owners: Ints, starts: Ints, ends: Ints, behind: Mask, late: Mask, unused: int
) -> None:
    """Goes through the rows of one session in order of arrival; open sessions come before elements."""
    live: list[tuple[int, int, list[int]]] = []
    for row in rows:
        start, end, members = int(starts[row]), int(ends[row]), [row]
        touched = [session for session in live if start <= session[1] and session[0] <= end]
        if not touched and behind[row]:
            late[row] = True
            continue
        for session in touched:
            live.remove(session)
            start, end = min(start, session[0]), max(end, session[1])
            members += session[2]
        live.append((start, end, members))
    for number, (_, _, members) in enumerate(live):
        owners[members] = unused + number

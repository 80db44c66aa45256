"""Hands elements to a keyed step as columns, which become objects there.

A step whose function is Python code needs objects. Made where the records are read, they would have to be pickled for
the exchange and made again behind it; as columns they cross it for next to nothing. Each becomes an object right before
the step takes it, a few thousand at a time, and is gone before the next ones come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from windrow.plan import Step, WindowNode
from windrow_runtime.columnar.array_types import Array, Hashes, Ints, Rows, Schema
from windrow_runtime.columnar.forms.folds import PaneFold, fold_for
from windrow_runtime.columnar.forms.route import CheckSource, routes_to
from windrow_runtime.columnar.forms.scan_target import ScanTarget
from windrow_runtime.columnar.rows.groups import Groups, Keys, encode_keys
from windrow_runtime.columnar.rows.hashing import stable_hashes
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.topology import Topology
from windrow_runtime.operators.windows.shape import GapWindows, shape_of
from windrow_runtime.operators.windows.table_loop import Partials

# Any in this module: keys and elements of every type.

_ROWS_AT_ONCE: Final = 8_192  # more of them leave the processor's cache


@dataclass(frozen=True)
class RowForm(ScanTarget):
    """A keyed step on Python objects whose elements get there as columns.

    Attributes:
        fold: How they are folded in front of the exchange; None: they are not.
        by_key: Whether elements of one key come side by side, which the loop of sessions takes at once.
    """

    fold: PaneFold | None
    by_key: bool

    def shipped(self, step: Step) -> RowForm:
        fold = None if self.fold is None else replace(self.fold, step=step)
        return replace(self, step=step, fold=fold)

    @cached_property
    def raw_schema(self) -> Schema:
        return pa.schema([*self._scanned_fields, *self._element_fields])

    def partials(self, keys: Keys, rows: Rows) -> tuple[Ints, Partials] | None:
        if self.fold is None:
            return None
        return self.fold.run(keys, rows, lambda rows: (some.values for some in self._slices(rows)))

    def hash_keys(self, keys: Array) -> Hashes:
        return stable_hashes(keys)  # they lie where they would if they came as objects

    def describe(self) -> str:
        """A few words for ``explain()``."""
        folded = "" if self.fold is None else f", {self.fold.describe()}"
        return f"elements cross the exchange as columns{folded}"

    def slices(self, rows: Rows) -> Iterator[RowSlice]:
        """Rows that came through the exchange, a few thousand at a time."""
        encoded = encode_keys(rows.column(0))
        codes = encoded.codes
        if self.by_key:
            order = Groups(codes, len(encoded.distinct)).order
            rows, codes = rows.take(pa.array(order)), codes[order]
        distinct = np.empty(len(encoded.distinct), dtype=object)
        distinct[:] = encoded.distinct.to_pylist()
        # Equal keys are one object, which makes it fast to look them up.
        keys = distinct[codes].tolist()
        for start, some in zip(range(0, len(keys), _ROWS_AT_ONCE), self._slices(rows), strict=True):
            some.keys = keys[start : start + _ROWS_AT_ONCE]
            yield some

    def _slices(self, rows: Rows) -> Iterator[RowSlice]:
        """Rows a few thousand at a time, without their keys."""
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield RowSlice(self, rows.slice(start, _ROWS_AT_ONCE), ())


@dataclass(slots=True)
class RowSlice:
    """Elements for one step, which are made each time that somebody asks for them.

    Attributes:
        form: Makes the elements.
        rows: Their columns, behind those of keys and timestamps.
        keys: Their keys.
    """

    form: RowForm
    rows: Rows
    keys: Sequence[Any]

    @property
    def values(self) -> Sequence[Any]:
        """The elements."""
        return self.form.elements_of(self.rows.columns[2:])

    @property
    def timestamps(self) -> Sequence[int | None]:
        """Their timestamps in milliseconds."""
        stamps: list[int | None] = self.rows.column(1).to_numpy().tolist()
        return stamps

    def pick(self, places: Sequence[int]) -> RowSlice:
        """Those at some places."""
        rows = self.rows.take(pa.array(places, pa.int64()))
        return RowSlice(self.form, rows, [self.keys[place] for place in places])


def row_form(topology: Topology, step: Step, check_source: CheckSource) -> RowForm:
    """Decides how the elements of a keyed step get there as columns; declined where they do not."""
    routes = routes_to(topology, step, check_source)
    try:
        fold = fold_for(step)
    except DeclinedError:
        fold = None
    return RowForm(step, routes, fold, _are_sessions(step))


def _are_sessions(step: Step) -> bool:
    with suppress(DeclinedError):
        return isinstance(step.node, WindowNode) and isinstance(shape_of(step.node), GapWindows)
    return False

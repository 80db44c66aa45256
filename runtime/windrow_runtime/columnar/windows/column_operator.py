"""Defines the columns of state and the results that the operators of panes and of sessions have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from windrow_runtime.columnar.array_types import Array, ArrowType, Ints, Schema
from windrow_runtime.columnar.kernels import Kernel
from windrow_runtime.columnar.windows.geometry import Panes, Sessions

W = TypeVar("W", Panes, Sessions)


@dataclass(frozen=True)
class ColumnOperator(Generic[W]):
    """Runs a step over columns, on some keys at a time.

    Attributes:
        windows: The windows.
        kernel: The aggregate.
        key_type: The Arrow type of keys.
    """

    windows: W
    kernel: Kernel
    key_type: ArrowType

    _places: ClassVar[Sequence[str]]

    @cached_property
    def schema(self) -> Schema:
        """The columns of state: key, place in time, and the kernel's."""
        fields = [pa.field("key", self.key_type), *[pa.field(name, pa.int64()) for name in self._places]]
        fields += [pa.field(f"s{place}", kind) for place, kind in enumerate(self.kernel.state_types)]
        return pa.schema(fields)


@dataclass(frozen=True, slots=True)
class Fired:
    """Windows that fired, as columns side by side.

    Attributes:
        keys: The keys.
        starts: The starts of the windows, in milliseconds; of no meaning for the window of all time.
        ends: Their ends.
        stamps: Their last timestamps, which the results carry.
        results: The results of the aggregate.
    """

    keys: Array
    starts: Ints
    ends: Ints
    stamps: Ints
    results: Array

    def __len__(self) -> int:
        return len(self.starts)

    def slice(self, start: int, count: int) -> Fired:
        """Up to ``count`` of them that follow each other."""
        some = slice(start, start + count)
        return Fired(self.keys[some], self.starts[some], self.ends[some], self.stamps[some], self.results[some])

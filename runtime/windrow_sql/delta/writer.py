"""Answers what engines ask of a sink that writes a Delta table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from windrow.sinks import DeltaSink
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class DeltaWriter(SinkWriter[DeltaSink[Any]]):
    """Writes Delta Lake tables."""

    extra = "delta"

    def output(self, identity: Identity) -> Output:
        # The library is imported only if a plan has such a sink.
        from windrow_sql.delta.output import DeltaOutput

        return DeltaOutput(self.step, self.sink, identity)

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        from windrow_sql.delta.output import DeltaOutput

        return DeltaOutput(self.step, self.sink, Identity("", "")).encoded  # which opens nothing

    @property
    def target(self) -> Target:
        # Different spellings of a path are one table.
        path = self.sink.path
        text = path.rstrip("/") if "://" in path else os.path.realpath(path)
        return Target(DeltaSink.__name__, text, is_exact=True)

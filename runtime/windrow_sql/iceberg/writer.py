"""Answers what engines ask of a sink that writes an Iceberg table."""

from __future__ import annotations

from typing import Any

from windrow.sinks import IcebergSink
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class IcebergWriter(SinkWriter[IcebergSink[Any]]):
    """Writes Iceberg tables."""

    extra = "iceberg"

    def output(self, identity: Identity) -> Output:
        # The library is imported only if a plan has such a sink.
        from windrow_sql.iceberg.output import IcebergOutput

        return IcebergOutput(self.step, self.sink, identity)

    @property
    def target(self) -> Target:
        return Target(IcebergSink.__name__, self.sink.table, is_exact=True)

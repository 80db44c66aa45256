"""Answers what engines ask of a sink that writes an Iceberg table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windrow.sinks import IcebergSink
from windrow_runtime.outputs.output import Identity, Output, written_type
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class IcebergWriter(SinkWriter[IcebergSink[Any]]):
    """Writes Iceberg tables."""

    extra = "iceberg"

    def output(self, identity: Identity) -> Output:
        # The library is imported only if a plan has such a sink.
        from windrow_sql.iceberg.output import IcebergOutput

        return IcebergOutput(self.step, self.sink, identity)

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        from windrow_runtime.codecs.arrow.encoding import encode_batch

        record_type = written_type(self.step)
        return lambda values: encode_batch(values, record_type)

    @property
    def target(self) -> Target:
        return Target(IcebergSink.__name__, self.sink.table, is_exact=True)

"""Reads collections on Spark through a file for each batch, so that the checkpoint shows which were read."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any

from windrow.sources import CollectionSource
from windrow_runtime.inputs.batch import SourceBatch
from windrow_runtime.operators.copies import own_all
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.stored_file import checkpoint_errors
from windrow_runtime.spark.paths import as_read_path
from windrow_runtime.spark.sources.scan import Scan, ScanContext
from windrow_runtime.storage.values import StateCodec

# Any in this module: elements of every type, and pyarrow has no types.

_FIRST_TIME = 1_000_000_000


def scan_collection(source: CollectionSource[Any], context: ScanContext) -> Scan:
    """Scans the elements of a collection."""
    size = source.batch_size or max(len(source.elements), 1)
    reader = _StoredReader(context.codec)
    if context.checkpoint is None:
        payload = bytearray(_stored(source, context, 0, len(source.elements)))
        return Scan(context.spark.createDataFrame([(payload,)], "payload binary"), reader)
    folder = context.checkpoint.folder_of(context.step)
    with checkpoint_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, len(source.elements), size)):
            file = folder / f"batch-{number:06d}.parquet"
            if not file.exists():
                write_whole(file, _parquet(_stored(source, context, start, start + size)))
                # Spark takes files by their time of modification.
                os.utime(file, (_FIRST_TIME + number, _FIRST_TIME + number))
    stream = context.reader.schema("payload binary").option("maxFilesPerTrigger", 1)
    return Scan(stream.option("pathGlobFilter", "batch-*.parquet").parquet(as_read_path(folder)), reader)


def _stored(source: CollectionSource[Any], context: ScanContext, start: int, end: int) -> bytes:
    with errors_at(context.step.where):
        return context.codec.dumps(source.elements[start:end])


def _parquet(payload: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = io.BytesIO()
    pq.write_table(pa.table({"payload": pa.array([payload], pa.binary())}), table)
    return table.getvalue()


@dataclass(frozen=True)
class _StoredReader:
    codec: StateCodec

    def decode(self, batch: Any) -> SourceBatch:
        payloads = batch.column(0).to_pylist()
        values = [value for payload in payloads for value in self.codec.loads(payload)]
        # Each element gets a copy of its own: a collection may hold one object twice, and the codec reads it as one.
        return SourceBatch(own_all(values))

"""Defines rows of a text file, most of which were read as columns, and some one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow import sources
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.origins import Origin, Parts, moved, nowhere

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class TextRows:
    """Consecutive rows of a text file: most of them as columns, and some that were read one by one."""

    rows: Any  # an Arrow batch
    record_type: RecordType
    plain: Sequence[tuple[int, SourceBatch]]  # rows read one by one, each with the number of rows in columns before it
    origin: Origin = nowhere  # of the rows in columns

    def columns(self) -> Any:
        """Returns the columns of all elements."""
        if not any(batch.values for _, batch in self.plain):
            return self.rows
        from windrow_runtime.codecs.arrow.text_blocks import interleaved

        return interleaved(self.rows, [(row, batch.values) for row, batch in self.plain], self.record_type)

    def decode(self) -> tuple[list[Any], list[sources.MalformedRecord], dict[str, str], Parts]:
        """Returns the elements, the malformed records, the headers to warn of, and where the elements come from."""
        from windrow_runtime.codecs.arrow.decoding import decode_batch

        decoded_rows = SourceBatch()
        decoded = decode_batch(self.rows, self.record_type)
        if not self.plain:
            return decoded, [], {}, [(0, self.origin)]
        rows_done = 0
        for row, batch in (*self.plain, (len(decoded), SourceBatch())):
            run = SourceBatch(decoded[rows_done:row])
            if run.values:
                run.origins.append((0, moved(self.origin, rows_done)))
            decoded_rows.add(run)
            decoded_rows.add(batch)
            rows_done = row
        return decoded_rows.values, decoded_rows.malformed, decoded_rows.unmatched, decoded_rows.origins


def without_elements(batch: Any) -> SourceBatch:
    """Returns the malformed records of a batch and the headers to warn of, without elements, which are in columns."""
    batch_alone = SourceBatch()
    for _, plain in batch.plain if isinstance(batch, TextRows) else ():
        batch_alone.malformed += plain.malformed
        batch_alone.unmatched = plain.unmatched | batch_alone.unmatched
    if not isinstance(batch, TextRows):
        # Batches of files have headers to warn of, and those of a DataFrame have none.
        batch_alone.unmatched = dict(getattr(batch, "unmatched", {}))
    return batch_alone

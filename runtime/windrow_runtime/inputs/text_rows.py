"""Rows of a file as columns, with those among them that were read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windrow.sources import MalformedRecord
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch

# Any in this module: elements of every type, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class TextRows:
    """Consecutive rows of a text file: the columns of most elements, and what was read row by row."""

    rows: Any  # an Arrow batch
    kind: RecordType
    plain: Sequence[tuple[int, SourceBatch]]  # each with the number of rows of columns in front of it

    def columns(self) -> Any:
        """The columns of all elements."""
        if not any(batch.values for _, batch in self.plain):
            return self.rows
        from windrow_runtime.codecs.arrow.text_blocks import interleaved

        return interleaved(self.rows, [(row, batch.values) for row, batch in self.plain], self.kind)

    def decode(self) -> tuple[list[Any], list[MalformedRecord], dict[str, str]]:
        """The elements, the rows that do not fit their type, and headers to warn of."""
        from windrow_runtime.codecs.arrow.decoding import decode_batch

        found = SourceBatch()
        decoded = decode_batch(self.rows, self.kind)
        if not self.plain:
            return decoded, [], {}
        taken = 0
        for row, batch in self.plain:
            found.values += decoded[taken:row]
            found.add(batch)
            taken = row
        return [*found.values, *decoded[taken:]], found.malformed, found.unmatched

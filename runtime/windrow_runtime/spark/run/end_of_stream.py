"""The end of a stream that is drained: the batch that reads it, and the batches behind, which take nothing more.

The runner puts a file into the control folder of the checkpoint. The batch that reads it moves the watermark to the end
of time, and the batch behind it fires what is open. Sources may go on delivering meanwhile; what the batches behind
the end read would be late everywhere, so it is left where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors, read_number
from windrow_runtime.spark.clock.files import current_batch

__all__ = ["END_LINE", "EndMark"]

END_LINE: Final = "end"
"""The line in the control folder that ends the stream. Any other line wakes the query, and means nothing."""

# Any: Arrow batches, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class EndMark:
    """Notes in the checkpoint which batch read the end of the stream.

    Attributes:
        file: Where.
    """

    file: Path

    def batch(self) -> int | None:
        """The number of the batch that read the end; None: none has.

        Raises:
            CheckpointError: If the file cannot be read, or does not hold that.
        """
        return read_number(self.file)

    def note(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Called by Spark with the rows of the control folder, by ``mapInArrow``; passes them on."""
        for batch in batches:
            number = current_batch()
            if number is not None and END_LINE in batch.column(0).to_pylist():
                with checkpoint_errors(self.file.parent):
                    write_whole(self.file, f"{number}\n")
            yield batch

    def before_end(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches of a source's partition, or nothing where the stream is at its end already."""
        end, number = self.batch(), current_batch()
        over = end is not None and number is not None and number > end
        for batch in batches:  # read to their end in any case, since Spark writes them
            if not over:
                yield batch

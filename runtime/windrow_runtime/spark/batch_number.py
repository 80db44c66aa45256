"""Finds the number of the batch that a task belongs to, and notes such numbers in files of a checkpoint.

Spark's part of a checkpoint can get lost, or be put back from an older copy, by itself. Spark would then begin anew, or
give numbers of batches a second time, which sinks take for batches that they have. The note of the newest batch shows
it. A second note holds the batch that read the end of a stream which is drained: it moves the watermark to the end of
time, and the batch behind it fires all open windows. Sources may go on delivering meanwhile; elements that batches
behind the end read would be late everywhere, so they are left in the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow_runtime.spark.checkpoint.stored_file import StoredFile

END_LINE: Final = "end"
"""The line in the control folder that ends the stream. Any other line only wakes the query."""

JOB_BATCH: Final = 0
"""The number of the one batch of a batch job."""

_BATCH_PROPERTY: Final = "streaming.sql.batchId"
_TAGS_PROPERTY: Final = "spark.job.tags"
_TAG: Final = "windrow-batch-"

# Any in this module: Arrow batches, and pyarrow has no types.


def batch_tag(batch: int) -> str:
    """Returns the tag of a batch's jobs over Spark Connect, where Spark gives their tasks no number."""
    return f"{_TAG}{batch}"


def current_batch() -> int | None:
    """Returns the number of the batch that this task belongs to; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    number = context.getLocalProperty(_BATCH_PROPERTY)
    if number is not None:
        return int(number)
    # Spark makes the tag part of a longer one.
    tagged = re.search(rf"{_TAG}(\d+)", context.getLocalProperty(_TAGS_PROPERTY) or "")
    return None if tagged is None else int(tagged[1])


@dataclass(frozen=True, slots=True)
class BatchNote:
    """Notes the highest number of a batch in a file.

    Attributes:
        path: The file, in a folder that every process which notes a batch sees.
    """

    path: Path

    def batch(self) -> int:
        """Returns the number that was noted; -1: none.

        Raises:
            CheckpointError: If the file cannot be read, or is damaged.
        """
        number = self._file.read()
        return -1 if number is None else number

    def note(self, batch: int) -> None:
        """Note a batch. One that runs again changes nothing.

        Raises:
            CheckpointError: If the file cannot be read or written.
        """
        if batch > self.batch():
            self._file.write(batch)

    @property
    def _file(self) -> StoredFile[int]:
        return StoredFile(self.path, int)


class EndMark(BatchNote):
    """Notes in the checkpoint which batch read the end of the stream."""

    __slots__ = ()

    def note_end(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Notes the batch if rows of the control folder end the stream, and passes them on; for ``mapInArrow``."""
        for batch in batches:
            number = current_batch()
            if number is not None and END_LINE in batch.column(0).to_pylist():
                self.note(number)
            yield batch

    def before_end(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields the batches of a source's partition, or nothing if the stream is at its end already."""
        end, number = self.batch(), current_batch()
        over = number is not None and number > end >= 0
        for batch in batches:  # read to their end in any case, since Spark writes them
            if not over:
                yield batch

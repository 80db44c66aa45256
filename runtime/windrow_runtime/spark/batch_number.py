"""The number of the newest batch that has run, kept beside Spark's own progress.

Spark's part of a checkpoint can get lost, or be put back from an older copy, by itself. Spark would then begin anew, or
give numbers of batches a second time, which sinks take for batches that they have. The note shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors, read_number

__all__ = ["BatchNote"]


@dataclass(frozen=True, slots=True)
class BatchNote:
    """Notes the newest batch in a file.

    Attributes:
        file: The file, in a folder that every process which calls :meth:`note` sees.
    """

    file: Path

    def newest(self) -> int:
        """The number of the newest batch that has begun to write; -1: none has.

        Raises:
            CheckpointError: If the file cannot be read, or does not hold a number.
        """
        number = read_number(self.file)
        return -1 if number is None else number

    def note(self, batch: int) -> None:
        """Note a batch that begins to write. A batch that runs again changes nothing.

        Raises:
            CheckpointError: If the file cannot be read or written.
        """
        if batch > self.newest():
            with checkpoint_errors(self.file.parent):
                write_whole(self.file, f"{batch}\n")

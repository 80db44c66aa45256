"""Tells by Spark's log of offsets when a batch asked the sources for elements, and which of them had something new."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file

_HEAD: Final = 2  # the lines before those of the sources
_NOTHING: Final = b"-"
_ALIGNED_MILLIS: Final = 1000
"""Triggers of at least this interval begin at its multiples, and ask the sources long before the next one."""

ASKING_MILLIS: Final = 100
"""How long before its time in the log a batch asks the first source at most, where triggers are closer."""


class _PlannedTime(msgspec.Struct):
    """The clock when Spark had asked all sources for a batch."""

    now: int = msgspec.field(name="batchTimestampMs")


@dataclass
class AskedSources:
    """Reads the log of a query. A batch that runs again finds the same there.

    Attributes:
        spark: Spark's part of the checkpoint.
        sources: The ids of the sources' steps, in their order.
        asked_once: The clock when a run that reads what there is asked the sources, once for all its batches.
        interval: The milliseconds from trigger to trigger of a run that goes on.
        of_user: The ids of those that are streams of the user's, of which each may have several sources for Spark.
    """

    spark: StoragePath
    sources: Sequence[str]
    asked_once: int | None = None
    interval: int = 0
    of_user: Collection[str] = ()

    @property
    def slack(self) -> int:
        """How far the time of :meth:`at` may lie before that at which a trigger began, in milliseconds."""
        return 0 if self.interval >= _ALIGNED_MILLIS else ASKING_MILLIS

    def at(self, batch: int) -> int:
        """Returns a time at or before which no source had been asked for a batch, but shortly before it was.

        Spark notes the time after it has asked. What arrives meanwhile is left for the next batch, so that time would
        be too late.
        """
        file = self.spark / "offsets" / str(batch)
        try:
            noted = msgspec.json.decode(self._lines(batch)[1], type=_PlannedTime).now
        except (ValueError, IndexError) as error:
            raise damaged_file(file, f"{error}") from error
        begun = noted - noted % self.interval if self.interval >= _ALIGNED_MILLIS else noted - ASKING_MILLIS
        return begun if self.asked_once is None else min(begun, self.asked_once)

    def with_news(self, batch: int) -> Collection[str]:
        """Returns the ids of the sources whose offsets a batch has moved.

        All have news where they cannot be told apart: Spark reads what two streams of the user's share only once.
        """
        offsets = self._lines(batch)[_HEAD:-1]  # the last line is that of the control folder
        before = self._lines(batch - 1)[_HEAD:-1] if batch > 0 else [_NOTHING] * len(offsets)
        several = len(offsets) - len(self.sources) + 1  # the lines of the only source that may have more than one
        lines = [several if source in self.of_user else 1 for source in self.sources]
        if sum(lines) != len(offsets) or len(before) != len(offsets) or several < 1:
            return () if offsets == before else self.sources
        owners = [source for source, count in zip(self.sources, lines, strict=True) for _ in range(count)]
        return {source for source, old, new in zip(owners, before, offsets, strict=True) if old != new}

    def _lines(self, batch: int) -> list[bytes]:
        file = self.spark / "offsets" / str(batch)
        with checkpoint_errors(file):
            return file.read_bytes().splitlines()

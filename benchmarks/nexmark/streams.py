"""The streams of a folder of data, with timestamps and watermarks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from benchmarks.nexmark.model import Auction, Bid, Person
from windrow import DataStream, WatermarkStrategy, from_source
from windrow.sources import ParquetFileSource

__all__ = ["Streams"]

T = TypeVar("T", Person, Auction, Bid)


@dataclass(frozen=True)
class Streams:
    """Reads the streams below a folder.

    Attributes:
        folder: The data, with a ``manifest.json``.
        files_per_batch: How many files of each stream a batch has; None: all.
    """

    folder: Path
    files_per_batch: int | None = None

    @cached_property
    def manifest(self) -> dict[str, int]:
        """What the generator says about the data."""
        found: dict[str, int] = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        return found

    @property
    def persons(self) -> DataStream[Person]:
        """The people who register."""
        return self._stream("person", Person)

    @property
    def auctions(self) -> DataStream[Auction]:
        """The auctions that they open."""
        return self._stream("auction", Auction)

    @property
    def bids(self) -> DataStream[Bid]:
        """The bids."""
        return self._stream("bid", Bid)

    def _stream(self, name: str, kind: type[T]) -> DataStream[T]:
        source = ParquetFileSource(self.folder / name, kind, files_per_batch=self.files_per_batch)
        disorder = timedelta(milliseconds=self.manifest["disorder_ms"])
        return from_source(source, name=name).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(disorder), timestamp=lambda event: event.date_time
        )

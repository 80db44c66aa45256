"""Keeps the collected elements and the counts of a query's batches for the runner."""

from __future__ import annotations

import secrets
import shutil
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from windrow_runtime.operators.errors import errors_at
from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.stored_file import StoredFile, checkpoint_errors, damaged_file, file_numbers
from windrow_runtime.spark.exchange.payload import load_values
from windrow_runtime.spark.run.progress import PipelineProgress
from windrow_runtime.storage.values import StateCodec

# Any in this module: elements of every type, and what JSON holds.

Counted: TypeAlias = "Counter[tuple[str, str]]"
"""Increments by step id and counter."""

_BATCH: Final = "batch-"
_REPORT: Final = "report-"
_REPORTS_KEPT: Final = 100
_PIECE: Final = struct.Struct("<iq")
"""The header of a sink's elements in a file: the number of the sink, and their length in bytes."""


class Results(Protocol):
    """Keeps results by batch, so that a batch that is run again replaces its own.

    Only the newest batch can be: Spark begins none before it has noted the one before as done.
    """

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the collected elements of a batch, packed, by the number of the sink, and its counts."""
        ...

    def report(self, progress: PipelineProgress) -> None:
        """Keep the report on a batch."""
        ...

    def latest_report(self) -> PipelineProgress | None:
        """Returns the report on the newest batch; None: there was none."""
        ...

    def collected(self, number: int) -> list[Any]:
        """Returns the elements that the sink of a number has taken."""
        ...

    def counters(self) -> dict[str, dict[str, int]]:
        """Returns the totals of all counters, by step and name."""
        ...


@dataclass(slots=True)
class _Counts:
    """The counters of all batches; their size does not depend on how many batches there were.

    Attributes:
        before: The totals of all batches but the newest one that counted anything.
        batch: The number of that newest one.
        newest: Its counts.
    """

    before: Counted = field(default_factory=Counter)
    batch: int = -1
    newest: Counted = field(default_factory=Counter)

    def put(self, batch: int, counted: Counted) -> bool:
        """Keep the counts of a batch; returns whether that changes anything."""
        assert batch >= self.batch, f"batch {batch} is run again behind batch {self.batch}"
        if not counted and (batch > self.batch or not self.newest):
            return False
        if batch > self.batch:
            self.before = Counter(self.before)
            self.before.update(self.newest)
            self.batch = batch
        self.newest = counted
        return True

    def totals(self) -> dict[str, dict[str, int]]:
        """Returns the totals by step and name."""
        totals: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for counted in (self.before, self.newest):
            for (step, name), count in counted.items():
                totals[step][name] = totals[step].get(name, 0) + count
        return dict(totals)

    def stored(self) -> _StoredCounts:
        """Returns the counters in a form for JSON. Undone by :meth:`_StoredCounts.counts`."""
        before, newest = (
            [(step, name, count) for (step, name), count in counted.items()] for counted in (self.before, self.newest)
        )
        return _StoredCounts(before, self.batch, newest)


@dataclass(frozen=True, slots=True)
class _StoredCounts:
    before: list[tuple[str, str, int]]
    batch: int
    newest: list[tuple[str, str, int]]

    def counts(self) -> _Counts:
        """Returns the counts that :meth:`_Counts.stored` was called on."""
        before, newest = (
            Counter({(step, name): count for step, name, count in stored}) for stored in (self.before, self.newest)
        )
        return _Counts(before, self.batch, newest)


class MemoryResults:
    """Results of a query whose batches end in this process."""

    def __init__(self) -> None:
        self._collected: defaultdict[int, dict[int, list[Any]]] = defaultdict(dict)
        self._counts = _Counts()
        self._report: PipelineProgress | None = None

    def report(self, progress: PipelineProgress) -> None:
        """Keep the report on a batch, in the place of the one before."""
        self._report = progress

    def latest_report(self) -> PipelineProgress | None:
        """Returns the report on the newest batch; None: there was none."""
        return self._report

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch."""
        for number, payloads in collected.items():
            values = [value for payload in payloads for value in load_values(payload)]
            # A pipeline that runs for months has many batches with nothing to collect.
            if values:
                self._collected[number][batch] = values
            else:
                self._collected[number].pop(batch, None)
        # Other threads may be reading the counters, so a copy is changed.
        counts = replace(self._counts)
        counts.put(batch, counted)
        self._counts = counts

    def collected(self, number: int) -> list[Any]:
        """Returns the elements that the sink of a number has taken."""
        return [value for _, values in sorted(self._collected[number].items()) for value in values]

    def counters(self) -> dict[str, dict[str, int]]:
        """Returns the totals of all counters, by step and name."""
        return self._counts.totals()


class SpooledResults:
    """Results of a query whose batches end in a process of a Spark Connect server.

    They go through files: one for each batch that collected something, and one for all counts. Collected
    elements are written as state is, so that reading a file runs no code, whoever wrote it.

    Args:
        folder: Where the files are, in one of the run: a folder that this process and the server see.
        codec: Writes and reads collected elements.
    """

    def __init__(self, folder: Path, codec: StateCodec) -> None:
        self._parent = folder
        # A process of the server may still be at work for a run that was broken off: each run has a folder of its own.
        self._folder = folder / secrets.token_hex(8)
        self._codec = codec

    def clear(self) -> None:
        """Forget the results of earlier runs.

        Raises:
            CheckpointError: If the folder cannot be made.
        """
        shutil.rmtree(self._parent, ignore_errors=True)
        with checkpoint_errors(self._folder):
            self._folder.mkdir(parents=True)

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch.

        Raises:
            CheckpointError: If they cannot be written.
            UnsupportedOperationError: For a collected value of a class that the plan does not name.
        """
        content = b"".join(self._framed(collected))
        if content:
            self._write(f"{_BATCH}{batch}", content)
        else:
            self._remove(f"{_BATCH}{batch}")
        # Read each time: the process of the server that wrote it may have been another.
        counts = self._counts()
        if counts.put(batch, counted):
            self._counts_file.write(counts.stored())

    def report(self, progress: PipelineProgress) -> None:
        """Keep the report on a batch, and delete the oldest report.

        Raises:
            CheckpointError: If it cannot be written.
        """
        self._report_file(progress.batch).write(progress)
        self._remove(f"{_REPORT}{progress.batch - _REPORTS_KEPT}")

    def latest_report(self) -> PipelineProgress | None:
        """Returns the report on the newest batch; None: there was none.

        Raises:
            CheckpointError: As :meth:`collected`.
        """
        return next(iter(self._reports(self._reported()[-1:])), None)

    def reports(self, after: int) -> list[PipelineProgress]:
        """Returns the reports on batches with numbers above ``after``, in their order, as far as they are kept.

        Raises:
            CheckpointError: As :meth:`collected`.
        """
        return self._reports([batch for batch in self._reported() if batch > after])

    @property
    def _counts_file(self) -> StoredFile[_StoredCounts]:
        return StoredFile(self._folder / "counts", _StoredCounts)

    def _report_file(self, batch: int) -> StoredFile[PipelineProgress]:
        return StoredFile(self._folder / f"{_REPORT}{batch}", PipelineProgress)

    def _reported(self) -> list[int]:
        return self._numbers(_REPORT)

    def _reports(self, batches: Iterable[int]) -> list[PipelineProgress]:
        found = (self._report_file(batch).read() for batch in batches)
        return [report for report in found if report is not None]

    def collected(self, number: int) -> list[Any]:
        """Returns the elements that the sink of a number has taken.

        Raises:
            CheckpointError: If a file cannot be read, or is damaged.
        """
        return [
            value for name, sink, packed in self._pieces() if sink == number for value in self._values(name, packed)
        ]

    def counters(self) -> dict[str, dict[str, int]]:
        """Returns the totals of all counters, by step and name.

        Raises:
            CheckpointError: As :meth:`collected`.
        """
        return self._counts().totals()

    def _counts(self) -> _Counts:
        stored = self._counts_file.read()
        if stored is None:
            self._check_folder()
            return _Counts()
        return stored.counts()

    def _framed(self, collected: Mapping[int, Sequence[bytes]]) -> Iterator[bytes]:
        for number, payloads in collected.items():
            # The payloads come from this run's own workers.
            values = [value for payload in payloads for value in load_values(payload)]
            if values:
                packed = self._codec.dumps(values)
                yield _PIECE.pack(number, len(packed))
                yield packed

    def _pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """Yields the name of a file, the number of a sink, and its packed elements, batch by batch."""
        for batch in self._numbers(_BATCH):
            name, position = f"{_BATCH}{batch}", 0
            content = self._read(name)
            while content is not None and position < len(content):
                try:
                    sink, length = _PIECE.unpack_from(content, position)
                except struct.error as error:
                    raise damaged_file(self._folder / name, f"{error}") from error
                position += _PIECE.size + length
                if length < 0 or position > len(content):
                    raise damaged_file(self._folder / name, f"{length} bytes of {len(content)}")
                yield name, sink, content[position - length : position]

    def _values(self, name: str, packed: bytes) -> list[Any]:
        with errors_at(str(self._folder / name)):
            return self._codec.loads(packed)

    def _numbers(self, prefix: str) -> list[int]:
        """Returns the numbers of the files that are named by a prefix and the number of a batch, in order."""
        self._check_folder()
        return sorted(file_numbers(self._folder, prefix))

    def _check_folder(self) -> None:
        with checkpoint_errors(self._folder):
            self._folder.stat()

    def _remove(self, name: str) -> None:
        with checkpoint_errors(self._folder):
            (self._folder / name).unlink(missing_ok=True)

    def _write(self, name: str, content: bytes) -> None:
        with checkpoint_errors(self._folder):
            write_whole(self._folder / name, content)

    def _read(self, name: str) -> bytes | None:
        with checkpoint_errors(self._folder):
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                self._folder.stat()
                return None

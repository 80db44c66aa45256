"""What the batches of a query collected and counted, kept where the runner finds it."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from windrow_runtime.spark.payload import unpack_elements
from windrow_runtime.spark.sealed_files import SealedFolder

__all__ = ["MemoryResults", "Results", "SpooledResults"]

# Any in this module: elements of every type, and what JSON holds.

Counted: TypeAlias = "Counter[tuple[str, str]]"
"""Increments by step id and counter."""

_COUNTS: Final = "counts"
_PAYLOAD: Final = struct.Struct("<iq")
"""Stands before a payload: the number of its sink, and its length."""


class Results(Protocol):
    """Keeps results by batch, so that a batch that is run again replaces its own.

    Only the newest batch can be: Spark begins none before it has noted the one before as done.
    """

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep what a batch collected, as packed elements by the number of the sink, and what it counted."""
        ...

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken."""
        ...

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name."""
        ...


@dataclass(slots=True)
class _Counts:
    """The counters of all batches, in a size that does not follow their number.

    Attributes:
        before: The totals of the batches before the newest that counted anything.
        batch: The number of that one.
        newest: What it counted.
    """

    before: Counted = field(default_factory=Counter)
    batch: int = -1
    newest: Counted = field(default_factory=Counter)

    def put(self, batch: int, counted: Counted) -> bool:
        """Keep what a batch counted; gives whether that changes anything."""
        assert batch >= self.batch, f"batch {batch} is run again behind batch {self.batch}"
        if not counted and (batch > self.batch or not self.newest):
            return False
        if batch > self.batch:
            self.before.update(self.newest)
            self.batch = batch
        self.newest = counted
        return True

    def totals(self) -> dict[str, dict[str, int]]:
        """By step and name."""
        totals: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for counted in (self.before, self.newest):
            for (step, name), count in counted.items():
                totals[step][name] = totals[step].get(name, 0) + count
        return dict(totals)

    def dumps(self) -> bytes:
        """As JSON. Undone by :meth:`loads`."""
        before, newest = (
            [(step, name, count) for (step, name), count in counted.items()]
            for counted in (self.before, self.newest)
        )
        # A user's function may have counted with numpy's ints.
        return json.dumps([before, self.batch, newest], default=index).encode()

    @staticmethod
    def loads(data: bytes) -> _Counts:
        """What :meth:`dumps` wrote."""
        before, batch, newest = json.loads(data)
        return _Counts(_counter(before), batch, _counter(newest))


class MemoryResults:
    """Results of a query whose batches end in this process."""

    def __init__(self) -> None:
        self._collected: defaultdict[int, dict[int, list[Any]]] = defaultdict(dict)
        self._counts = _Counts()

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch."""
        for number, payloads in collected.items():
            values = [value for payload in payloads for value in unpack_elements(payload).values]
            # A pipeline that runs for months has many batches with nothing to collect.
            if values:
                self._collected[number][batch] = values
            else:
                self._collected[number].pop(batch, None)
        self._counts.put(batch, counted)

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken."""
        return [value for _, values in sorted(self._collected[number].items()) for value in values]

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name."""
        return self._counts.totals()


class SpooledResults:
    """Results of a query whose batches end in a process of a Spark Connect server.

    They go through files: one for each batch that collected something, and one for all that was counted. What was
    collected is pickled, so the files are sealed: those that others wrote are refused before anything looks into them.

    Args:
        folder: Where the files are, in one of the run: a folder that this process and the server see.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A process of the server may still be at work for a run that was broken off: each run has a folder of its own.
        self._files = SealedFolder(folder / secrets.token_hex(8))

    def clear(self) -> None:
        """Forget the results of earlier runs.

        Raises:
            CheckpointError: If the folder cannot be made.
        """
        shutil.rmtree(self._folder, ignore_errors=True)
        self._files.make()

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch.

        Raises:
            CheckpointError: If they cannot be written.
        """
        content = b"".join(_framed(collected))
        if content:
            self._files.write(f"batch-{batch}", content)
        else:
            self._files.remove(f"batch-{batch}")
        # Read each time: the process of the server that wrote it may have been another.
        counts = self._counts()
        if counts.put(batch, counted):
            self._files.write(_COUNTS, counts.dumps())

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken.

        Raises:
            CheckpointError: If somebody else wrote to the folder, or a file cannot be read.
        """
        return [
            value
            for sink, payload in self._payloads()
            if sink == number
            for value in unpack_elements(payload).values
        ]

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name.

        Raises:
            CheckpointError: As :meth:`collected`.
        """
        return self._counts().totals()

    def _counts(self) -> _Counts:
        data = self._files.read(_COUNTS)
        return _Counts() if data is None else _Counts.loads(data)

    def _payloads(self) -> Iterator[tuple[int, bytes]]:
        found = (re.fullmatch(r"batch-(\d+)", name) for name in self._files.names())
        for batch in sorted({int(match[1]) for match in found if match is not None}):
            content = self._files.read(f"batch-{batch}")
            position = 0
            while content is not None and position < len(content):
                sink, length = _PAYLOAD.unpack_from(content, position)
                position += _PAYLOAD.size + length
                yield sink, content[position - length : position]


def _framed(collected: Mapping[int, Sequence[bytes]]) -> Iterator[bytes]:
    for number, payloads in collected.items():
        for payload in payloads:
            yield _PAYLOAD.pack(number, len(payload))
            yield payload


def _counter(counted: Iterable[tuple[str, str, int]]) -> Counted:
    return Counter({(step, name): count for step, name, count in counted})

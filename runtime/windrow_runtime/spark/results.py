"""What the batches of a query collected and counted, kept where the runner finds it."""

from __future__ import annotations

import pickle
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from windrow_runtime.spark.payload import unpack_elements

__all__ = ["MemoryResults", "Results", "SpooledResults"]

# Any in this module: elements of every type.

Counted: TypeAlias = "Counter[tuple[str, str]]"
"""Increments by step id and counter."""


class Results(Protocol):
    """Keeps results by batch, so that a batch that is run again replaces its own."""

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep what a batch collected, as packed elements by the number of the sink, and what it counted."""
        ...

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken."""
        ...

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name."""
        ...


class MemoryResults:
    """Results of a query whose batches end in this process."""

    def __init__(self) -> None:
        self._collected: defaultdict[int, dict[int, list[Any]]] = defaultdict(dict)
        self._counted: dict[int, Counted] = {}

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch."""
        for number, payloads in collected.items():
            self._collected[number][batch] = _elements(payloads)
        # A pipeline that runs for weeks has few batches with something to count.
        self._counted.pop(batch, None)
        if counted:
            self._counted[batch] = counted

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken."""
        return [value for _, values in sorted(self._collected[number].items()) for value in values]

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name."""
        return _totals(self._counted.values())


class SpooledResults:
    """Results of a query whose batches end in a process of a Spark Connect server: a file for each batch that has some.

    Args:
        folder: Where the files are: a folder that this process and the server see.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        """Forget the results of earlier runs."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def put(self, batch: int, collected: Mapping[int, Sequence[bytes]], counted: Counted) -> None:
        """Keep the results of a batch."""
        file = self._folder / f"batch-{batch}"
        present = {number: list(payloads) for number, payloads in collected.items() if payloads}
        if not present and not counted:
            file.unlink(missing_ok=True)
            return
        # Written aside first, so that a reader never sees half a batch.
        aside = self._folder / f"_batch-{batch}"
        aside.write_bytes(pickle.dumps((present, dict(counted))))
        aside.rename(file)

    def collected(self, number: int) -> list[Any]:
        """What the sink of a number has taken."""
        return [value for collected, _ in self._batches() for value in _elements(collected.get(number, ()))]

    def counters(self) -> dict[str, dict[str, int]]:
        """The totals of all counters, by step and name."""
        return _totals(counted for _, counted in self._batches())

    def _batches(self) -> Iterator[tuple[Mapping[int, Sequence[bytes]], Mapping[tuple[str, str], int]]]:
        found = (re.fullmatch(r"batch-(\d+)", file.name) for file in self._folder.iterdir())
        for number in sorted(int(match[1]) for match in found if match is not None):
            yield pickle.loads((self._folder / f"batch-{number}").read_bytes())


def _elements(payloads: Iterable[bytes]) -> list[Any]:
    return [value for payload in payloads for value in unpack_elements(payload).values]


def _totals(batches: Iterable[Mapping[tuple[str, str], int]]) -> dict[str, dict[str, int]]:
    totals: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for counted in batches:
        for (step, name), count in counted.items():
            totals[step][name] = totals[step].get(name, 0) + count
    return dict(totals)

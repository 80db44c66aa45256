"""A sink that a user could have written: files of lines, each batch written exactly once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from windrow.connectors import CustomSink, SinkContext

__all__ = ["Ledger", "numbers_of"]


@dataclass
class Ledger(CustomSink[int]):
    """Writes the numbers of a batch into a file of the batch and the partition, which replaces an earlier attempt's."""

    folder: Path
    workers: bool = False
    fails_in: str = ""
    _context: SinkContext | None = field(default=None, init=False)
    _files: dict[int, TextIO] = field(default_factory=dict, init=False)

    @property
    def on_workers(self) -> bool:
        return self.workers

    def open(self, context: SinkContext) -> None:
        self._context = context
        self._note("open")

    def write(self, batch: int, rows: Sequence[int]) -> None:
        self._note(f"write {batch}")
        assert self._context is not None
        if batch not in self._files:
            name = f"{batch}-{self._context.partition}.jsonl"
            self._files[batch] = (self.folder / name).open("w", encoding="utf-8")
        self._files[batch].writelines(f"{json.dumps(row)}\n" for row in rows)
        self._files[batch].flush()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._note("close")

    def _note(self, call: str) -> None:
        with (self.folder / "calls").open("a", encoding="utf-8") as calls:
            calls.write(f"{call}\n")
        if self.fails_in and call.startswith(self.fails_in):
            raise ConnectionError(f"no {call}")


def numbers_of(folder: Path) -> list[int]:
    """All numbers in the files of a ledger."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines))

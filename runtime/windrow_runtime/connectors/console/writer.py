"""Prints elements on the standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from windrow.sinks import ConsoleSink
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.writer import SinkWriter


class ConsoleWriter(SinkWriter[ConsoleSink]):
    """Prints each element on a line of its own."""

    def output(self, identity: Identity) -> Output:
        return ConsoleOutput(self.sink.prefix)


class ConsoleOutput(Output):
    """Prints each element on a line of its own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def write(self, batch: int, values: Sequence[object]) -> None:
        for value in values:
            line = f"{self._prefix}{value}"
            try:
                print(line)
            except UnicodeEncodeError:
                # Not every terminal has all characters, and none has half of a surrogate pair.
                encoding = sys.stdout.encoding or "utf-8"
                print(line.encode(encoding, "backslashreplace").decode(encoding))

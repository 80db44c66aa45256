"""Reads the lines that a server sends, for the interpreter."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from windrow.errors import SourceError
from windrow.sources import SocketSource
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.reader import Held, SourceReader


class SocketReader(SourceReader[SocketSource]):
    """Reads lines until the server closes the connection, as one batch."""

    def batches(self, held: Held = tuple) -> Iterator[SourceBatch]:
        try:
            with (
                socket.create_connection((self.source.host, self.source.port)) as connection,
                connection.makefile("r", encoding="utf-8", errors="replace", newline=None) as lines,
            ):
                yield SourceBatch([line.removesuffix("\n") for line in lines])
        except OSError as error:
            raise SourceError(
                "the server of a socket source cannot be read",
                given=f"{self.source.host}:{self.source.port}: {error}",
                expected="a server that sends lines and closes the connection",
                where=self.step.where,
            ) from error

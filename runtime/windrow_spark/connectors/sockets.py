"""Reads the lines that a server sends, by Spark."""

from __future__ import annotations

from windrow.errors import UnsupportedOperationError
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.connectors.sockets.reader import SocketReader
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.sources.scan import Scan, ScanContext, scan_rows
from windrow_spark.sources.scanner import SparkScanner


class SocketScanner(SparkScanner[SocketReader]):
    """Scans lines of text that a server sends."""

    def scan(self, context: ScanContext) -> Scan:
        source = self.reader.source
        stream = context.reader.format("socket").option("host", source.host).option("port", source.port)
        return scan_rows(stream.load(), record_type(str), source.describe())

    def check_resumable(self, checkpoint: Checkpoint) -> None:
        if checkpoint.last_planned() >= 0:
            raise UnsupportedOperationError(
                "a socket source cannot go on from a checkpoint: nobody sends again what came",
                given=self.source.describe(),
                expected="a new checkpoint",
                where=self.step.where,
            )

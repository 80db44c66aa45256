"""Reads a user's own source on Spark."""

from __future__ import annotations

from windrow.connectors.custom_source import reads_arrow
from windrow_runtime.connectors.custom.reader import CustomReader
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.spark.sources.ranges import check_sent
from windrow_runtime.spark.sources.scan import Scan, ScanContext
from windrow_runtime.spark.sources.scanner import SparkScanner


class CustomScanner(SparkScanner[CustomReader]):
    """Scans the partitions of a user's own source, which has to be picklable."""

    def scan(self, context: ScanContext) -> Scan:
        self.check_sent()
        return super().scan(context)

    def check_sent(self) -> None:
        check_sent(self.source, self.step, "the source")

    def check_columns(self) -> None:
        if not reads_arrow(self.reader.source):
            raise DeclinedError(f"{self.source.describe()} gives records one by one: it has no read_arrow")

    @property
    def has_several_partitions(self) -> bool:
        return len(self.reader.reads().partitions()) > 1

    @property
    def is_divided(self) -> bool:
        return False

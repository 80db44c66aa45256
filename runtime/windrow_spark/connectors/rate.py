"""Reads the rate source of Spark."""

from __future__ import annotations

from windrow.sources import RateSource
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.inputs.reader import SourceReader
from windrow_spark.sources.scan import Scan, ScanContext, scan_rows
from windrow_spark.sources.scanner import SparkScanner


class RateScanner(SparkScanner[SourceReader[RateSource]]):
    """Scans a stream of numbered rows at a rate."""

    def scan(self, context: ScanContext) -> Scan:
        source = self.reader.source
        stream = context.reader.format("rate").option("rowsPerSecond", source.rows_per_second)
        frame = stream.options(**source.options).load()
        return scan_rows(frame, record_type(source.element_type), source.describe())

    def check_columns(self) -> None:
        """Accepts the source: Spark makes columns."""

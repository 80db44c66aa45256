"""Reads the parts of a hybrid source on Spark, one after the other."""

from __future__ import annotations

from windrow.sources import Source
from windrow_runtime.connectors.hybrid.reader import HybridReader
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.sources.ranges import check_sent, scan_reads
from windrow_spark.sources.scan import Scan, ScanContext
from windrow_spark.sources.scanner import SparkScanner, scanner_for


class HybridScanner(SparkScanner[HybridReader]):
    """Scans the parts of a hybrid source."""

    def scan(self, context: ScanContext) -> Scan:
        for part in self.reader.source.parts:
            if isinstance(part, Source):
                scanner_for(part, self.step).check_sent()
            else:
                check_sent(part, self.step, "the function that makes a source")
        reads = self.reader.reads_by(lambda part, place: scanner_for(part, self.step).as_part(context, place))
        return scan_reads(reads, context)

    @property
    def has_offsets_of_reader(self) -> bool:
        return False  # a part of files has other offsets on Spark than in the interpreter

    def check_columns(self) -> None:
        for part in self.reader.parts:
            scanner_for(part.source, self.step).check_columns()
        if len(self.reader.parts) < len(self.reader.source.parts):
            raise DeclinedError(f"{self.source.describe()}: a function makes a part of it")
        if len(self.reader.timezones) > 1:
            raise DeclinedError(f"{self.source.describe()}: its parts have different timezone=")

    def check_plan(self) -> None:
        for part in self.reader.parts:
            scanner_for(part.source, self.step).check_plan()

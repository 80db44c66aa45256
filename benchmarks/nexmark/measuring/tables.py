"""The streams as DataFrames, for queries of Spark's own."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  its usual name

from benchmarks.nexmark.measuring.data import FILES_PER_BATCH, Data

__all__ = ["Tables"]


@dataclass(frozen=True)
class Tables:
    """Reads the streams with Spark's file source.

    Attributes:
        spark: The session.
        data: The streams.
        is_closed: Whether to read the streams whose last event closes all windows.
    """

    spark: SparkSession
    data: Data
    is_closed: bool

    @property
    def persons(self) -> DataFrame:
        """The people who register."""
        return self._stream("person")

    @property
    def auctions(self) -> DataFrame:
        """The auctions that they open."""
        return self._stream("auction")

    @property
    def bids(self) -> DataFrame:
        """The bids."""
        return self._stream("bid")

    @property
    def side_input(self) -> DataFrame:
        """The bounded table."""
        return self.spark.read.parquet(str(self.data.path / "side_input"))

    def timed(self, frame: DataFrame, millis: str = "date_time", *, delay_ms: int = 0) -> DataFrame:
        """Add the column ``time``, with a watermark, from a column of milliseconds.

        Args:
            frame: The stream.
            millis: The column.
            delay_ms: By how much it may be behind the highest one, in addition to the stream's disorder.
        """
        delay = f"{self.data.manifest['disorder_ms'] + delay_ms} milliseconds"
        return frame.withColumn("time", F.timestamp_millis(millis)).withWatermark("time", delay)

    def _stream(self, name: str) -> DataFrame:
        folder = str((self.data.closed if self.is_closed else self.data.path) / name)
        schema = self.spark.read.parquet(str(self.data.path / name)).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(folder)

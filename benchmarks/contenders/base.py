"""What a contender is, and how one that is a plain Spark query is run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from benchmarks.check import Outcome
from benchmarks.data import SCHEMA, Dataset
from benchmarks.tuning import tuned

__all__ = ["Contender", "Job", "SinkKind", "SparkQuery", "read_input", "read_results", "run_query"]

# Any in this module: Arrow tables; pyarrow ships no types.

SinkKind = Literal["parquet", "driver"]
"""Where results go: into parquet files, or into the memory of the driver."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one contender.

    Attributes:
        spark: The session.
        dataset: The input.
        sink: Where results go.
        scratch: An empty folder for results and checkpoints.
        key_groups: How many key groups windrow has for each shuffle partition; None: as many as by default.
    """

    spark: SparkSession
    dataset: Dataset
    sink: SinkKind
    scratch: Path
    key_groups: int | None = None

    @property
    def results(self) -> Path:
        """The folder for result files."""
        return self.scratch / "results"

    @property
    def late(self) -> Path:
        """The folder for readings that are too late."""
        return self.scratch / "late"


class Contender(ABC):
    """One way to solve a problem on Spark."""

    @abstractmethod
    def run(self, job: Job) -> Outcome:
        """Run one streaming query over the dataset, batch by batch, to the end."""


class SparkQuery(Contender):
    """A query of Spark's own.

    Args:
        build: Makes the results from the input.
        finish: Makes the outcome from the table of results, when the time has been taken.
        has_settings: Whether the query has the settings of Spark's that windrow gives its own queries.
    """

    def __init__(
        self,
        build: Callable[[DataFrame], DataFrame],
        finish: Callable[[Any], Outcome] = Outcome,
        *,
        has_settings: bool = False,
    ) -> None:
        self._build = build
        self._finish = finish
        self._has_settings = has_settings

    def run(self, job: Job) -> Outcome:
        with tuned(job.spark) if self._has_settings else nullcontext():
            tables = run_query(self._build(read_input(job)), job)
        return self._finish(tables)


def read_input(job: Job, folder: str = "") -> DataFrame:
    """The dataset, or the stream in a folder of it, as a stream, a batch of the dataset being a micro-batch."""
    spec = job.dataset.spec
    reader = job.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", spec.files_per_batch)
    if spec.format == "csv":
        reader = reader.option("header", "true")
    return reader.format(spec.format).load(str(job.dataset.path / folder))


def run_query(results: DataFrame, job: Job) -> Any:
    """Run a query to the end of its input; the columns are those of the results."""
    tables: list[Any] = []
    writer = results.writeStream.outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(job.scratch / "checkpoint"))
    if job.sink == "parquet":
        query = writer.format("parquet").option("path", str(job.results)).start()
    else:
        query = writer.foreachBatch(lambda batch, _: tables.append(batch.toArrow())).start()
    query.awaitTermination()
    return read_results(job.results) if job.sink == "parquet" else pa.concat_tables(tables)


def read_results(folder: Path) -> Any:
    """The result files in a folder as one table."""
    files = [str(file) for file in folder.rglob("*.parquet")]
    return ds.dataset(files, format="parquet").to_table()

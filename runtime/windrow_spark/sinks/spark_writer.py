"""Defines what Spark asks of a sink beyond its writer, and finds the answer for a sink."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from windrow.entry_points import has
from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow.sinks import Sink
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.registered import registered
from windrow_runtime.outputs.output import Identity
from windrow_runtime.outputs.writer import SinkWriter, writer_of
from windrow_spark.sinks.worker_sink import WorkerSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

W_co = TypeVar("W_co", bound=SinkWriter[Any], covariant=True)

SPARK_WRITERS: Final = "windrow.spark_writers"
"""The entry points by which packages register Spark writers, under the :attr:`~windrow.sinks.Sink.connector_name`.

A sink whose writer has an ``output`` needs none.
"""

# Any in this module: sinks of elements of every type, and Spark's two classes of writers have no common type.


class WrittenBy(Enum):
    """Who writes the elements of a sink."""

    RESULTS = "the driver keeps them for the result of the run"
    OUTPUT = "an output writes them, on the driver"
    WORKERS = "the last stage of the query writes them as they come"
    SPARK = "Spark writes them, after the query's batch"
    QUERY = "Spark's own query writes them"


class SparkWriter(Generic[W_co]):
    """Answers the questions that Spark alone asks about the sink of a step."""

    is_opened_by_server: ClassVar[bool] = False
    """Whether a server of Spark Connect opens the output, and not the user's process."""

    def __init__(self, writer: W_co) -> None:
        self.writer = writer
        self.sink: Sink[Any] = writer.sink
        self.step = writer.step

    @property
    def written_by(self) -> WrittenBy:
        """Who writes the sink."""
        if self.writer.has_output:
            return WrittenBy.OUTPUT
        raise UnsupportedOperationError(
            "Spark cannot write to this sink",
            given=self.sink.describe(),
            expected="a sink whose writer has an output, such as memory, files or a CustomSink",
            where=self.step.where,
        )

    @property
    def takes_columns(self) -> bool:
        """Whether the elements are written as columns, whoever writes them."""
        return False

    @property
    def sees_order(self) -> bool:
        """Whether the target shows in which order the elements of a batch came."""
        return self.written_by in {WrittenBy.RESULTS, WrittenBy.OUTPUT}

    def check_plan(self) -> None:
        """Refuse a sink that Spark cannot write, before there is a session."""

    def check_target(self, spark: SparkSession) -> None:
        """Refuse a sink whose service is not there."""

    def check_unwritten(self, spark: SparkSession) -> None:
        """Refuse a sink that Spark writes if its target has batches; called before runs that begin with batch 0."""

    def worker_sink(self, identity: Identity | None) -> WorkerSink:
        """Returns the sink for workers, if they write it; ``identity`` is there if the sink has a target."""
        raise NotImplementedError(f"workers do not write {self.sink.describe()}")

    def check_batch(self, spark: SparkSession, batch: int, *, query: str, again: bool) -> None:
        """Refuse the first batch of a run if Spark has written a later one of the query."""

    def write_batch(
        self,
        frame: DataFrame,
        batch: int,
        number: int,
        classes: tuple[UserClass, ...],
        *,
        query: str,
        has_rows: bool,
        again: bool,
    ) -> None:
        """Writes the elements of the sink in a batch, if Spark does so.

        Args:
            frame: The packed rows of the batch.
            batch: The number of the batch.
            number: The number of the sink in the rows.
            classes: Classes that may occur in elements.
            query: The identity of the run.
            has_rows: Whether there are elements.
            again: Whether the batch was begun before.
        """
        raise NotImplementedError(f"Spark does not write {self.sink.describe()}")

    def stream_writer(self, frame: DataFrame, number: int, classes: tuple[UserClass, ...]) -> Any:
        """Returns the writer of Spark's stream, if its own query writes; the arguments are those of a batch."""
        raise NotImplementedError(f"a query of Spark's does not write {self.sink.describe()}")


def spark_writer_of(step: Step) -> SparkWriter[SinkWriter[Any]]:
    """Returns the Spark writer of a step's sink."""
    writer = writer_of(step)
    if not has(SPARK_WRITERS, type(writer.sink).connector_name):
        return SparkWriter(writer)
    spark_writer: SparkWriter[SinkWriter[Any]] = registered(SPARK_WRITERS, writer.sink, step.where)(writer)
    return spark_writer


def written_by(step: Step) -> WrittenBy:
    """Returns who writes the sink of a step; refuses a sink that Spark cannot write to."""
    return spark_writer_of(step).written_by


def check_unwritten(spark: SparkSession, sinks: Iterable[Step]) -> None:
    """Refuse sinks that Spark writes if their targets have batches; called before runs that begin with batch 0."""
    for step in sinks:
        spark_writer_of(step).check_unwritten(spark)


def takes_columns(step: Step) -> bool:
    """Returns whether the elements of a sink are written as columns, whoever writes them."""
    return spark_writer_of(step).takes_columns

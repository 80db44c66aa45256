"""Writes file sinks in file systems that are not mounted, by Spark's writers, from packed rows.

The encoders of all other files decide what values look like: Spark's writers get finished lines, or columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from windrow.addresses.paths import BATCH_COLUMN
from windrow.errors import WindrowError
from windrow.plan import Step
from windrow.sinks import FileSink, ParquetFileSink
from windrow_runtime.codecs.record_type import RecordType
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.connectors.files.lines import line_encoder
from windrow_runtime.connectors.files.owner import file_sink_of, other_run
from windrow_runtime.connectors.files.partition_columns import Partitions, partitions_of, text_of
from windrow_runtime.connectors.files.staged import StagedBatch, begun_batches, clear_staging
from windrow_runtime.operators.errors import sink_unwritable
from windrow_runtime.outputs.output import check_newest, written_type
from windrow_spark.checkpoint.storage import HadoopPath, unset_elsewhere
from windrow_spark.faults import causes_of, engine_errors, unwritable
from windrow_spark.paths import as_read_path, as_spark_path, exists_for_spark
from windrow_spark.run.background import uninterrupted
from windrow_spark.session import is_connect, settings_changed
from windrow_spark.sinks.unpacking import Unpack, rows_of, unpacked
from windrow_spark.spark_schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any in this module: elements of every type, and pyarrow has no types.

# The settings of a query's or a job's session while it writes.
_WRITER_SETTINGS: Final = {
    # Spark's default is a deprecated type of Parquet, with days and nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Fields whose names differ only by case are two columns.
    "spark.sql.caseSensitive": "true",
}

# The options of a writer into a folder that readers pass over.
_STAGED: Final = {
    # Tasks move their files to the folder when they are whole, which saves one of two copies on an object store. Spark
    # fails the job if a task dies meanwhile.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "partitionOverwriteMode": "static",
}


def _line_encoder(
    sink: FileSink[Any], record_type: RecordType, partitions: Partitions | None
) -> Callable[[Sequence[Any]], Any]:
    """Returns the function that encodes elements as a column of lines and a text column for each partition field."""
    import pyarrow as pa

    encoder = line_encoder(sink, record_type if partitions is None else partitions.rest)
    assert encoder is not None, "Parquet has no lines"
    names = _text_columns(partitions)
    header = [] if encoder.header is None else [(encoder.header,)]  # a sink with partitions writes no header

    def to_lines(values: Sequence[Any]) -> Any:
        elements = ((value, ()) for value in values) if partitions is None else partitions.elements(values)
        rows = [*header, *((encoder.encode(value), *map(text_of, texts)) for value, texts in elements)]
        header.clear()
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return pa.record_batch([pa.array(column, pa.string()) for column in columns], names=names)

    return to_lines


def _text_columns(partitions: Partitions | None) -> list[str]:
    """Returns the names of the columns that Spark writes: one with the lines, then those that name folders."""
    names = [] if partitions is None else partitions.columns
    return ["_".join(["line", *names]), *names]


def check_unwritten(spark: SparkSession, sink: FileSink[Any], step: Step) -> None:
    """Refuse a sink that Spark writes if its folder has batches; called before runs that begin with batch 0."""
    partitions = partitions_of(step)
    above = () if partitions is None else ("*=*" for _ in partitions.fields)
    written = "/".join([*above, f"{BATCH_COLUMN}=*"])
    with engine_errors(step.where, sink.secrets):
        has_batches = exists_for_spark(spark, f"{as_read_path(sink.path)}/{written}")
    if has_batches:
        raise other_run(step, sink.shown_path)


def write_files(
    frame: DataFrame,
    batch: int,
    number: int,
    step: Step,
    classes: tuple[UserClass, ...],
    *,
    query: str,
    has_rows: bool,
    again: bool,
) -> None:
    """Write the elements of a file sink, given by its number, in a batch, by Spark's writers.

    If the batch was begun before, ``again``, it is not written if readers may have found files of it; see
    :class:`StagedBatch`. Over Spark Connect nothing can be moved or deleted, so there Spark writes in place.
    """
    sink = file_sink_of(step)
    session = frame.sparkSession
    try:
        if is_connect(session):
            _write_in_place(frame, batch, number, step, classes, has_rows=has_rows)
            return
        staged = StagedBatch(_folder_of(session, sink), query, batch)
        if again and staged.finish():
            return
        attempt = staged.begin(again=again, in_folders=bool(sink.partition_by))
        if has_rows:
            _write_folder(frame, number, step, attempt.url, classes, _STAGED)
            staged.publish(attempt)
    except OSError as error:
        raise sink_unwritable(step, sink.path, error.strerror or str(error)) from error
    except WindrowError:
        raise
    except Exception as error:
        # The rows may have to be computed again, so the error need not be the sink's.
        reason = unwritable(error, sink.secrets)
        if reason is None:
            raise
        raise sink_unwritable(step, sink.path, reason) from causes_of(error, sink.secrets)


def check_files(session: SparkSession, batch: int, step: Step, *, query: str, again: bool) -> None:
    """Refuse the first batch of a run if a file notes that a later batch of the query is complete."""
    sink = file_sink_of(step)
    if is_connect(session):
        return
    try:
        folder = _folder_of(session, sink)
        for number in begun_batches(folder, query, batch + again):
            check_newest(number, batch, again=again, target=sink.describe(), where=step.where)
        clear_staging(folder, query, batch)
    except OSError as error:
        raise sink_unwritable(step, sink.path, error.strerror or str(error)) from error


def _folder_of(session: SparkSession, sink: FileSink[Any]) -> HadoopPath:
    return HadoopPath.of(session, sink.path.rstrip("/"), uninterrupted)


def _write_in_place(
    frame: DataFrame, batch: int, number: int, step: Step, classes: tuple[UserClass, ...], *, has_rows: bool
) -> None:
    """Writes a batch to its final folders; a batch that runs again overwrites the folders for which it has rows.

    A folder of its own that has no rows any more is written without rows.
    """
    sink = file_sink_of(step)
    folder = f"{sink.path}/{BATCH_COLUMN}={batch}"
    if sink.partition_by:
        if has_rows:
            overwrites_folders = {"partitionOverwriteMode": "dynamic"}
            _write_folder(frame, number, step, sink.path, classes, overwrites_folders, beside_others=batch)
    elif has_rows or exists_for_spark(frame.sparkSession, as_read_path(folder)):
        _write_folder(frame, number, step, folder, classes, {})


def _write_folder(
    frame: DataFrame,
    number: int,
    step: Step,
    address: str,
    classes: tuple[UserClass, ...],
    options: Mapping[str, str],
    *,
    beside_others: int | None = None,
) -> None:
    """Writes files into a folder of the batch alone, or with the number of the batch beside those of other batches."""
    sink = file_sink_of(step)
    path = as_spark_path(address)
    partitions = partitions_of(step)
    names = [] if partitions is None else partitions.columns
    element_type = written_type(step)
    with settings_changed(frame.sparkSession, _WRITER_SETTINGS):
        if isinstance(sink, ParquetFileSink):
            columns = unpacked(frame, number, step, classes)
        else:
            encoder = partial(_line_encoder, sink, element_type, partitions)
            to_lines = Unpack(encoder, step.where, classes, element_type, makes_lines=True)
            texts = ", ".join(f"{quoted(name)} string" for name in _text_columns(partitions))
            columns = rows_of(frame, number).mapInArrow(to_lines, texts)
        if beside_others is not None:
            names, columns = [*names, BATCH_COLUMN], columns.selectExpr("*", f"{beside_others}L AS {BATCH_COLUMN}")
        writer = columns.write.mode("overwrite").options(**options, **unset_elsewhere(frame.sparkSession))
        if names:
            writer = writer.partitionBy(*names)
        if isinstance(sink, ParquetFileSink):
            writer.parquet(path)
        else:
            writer.text(path)

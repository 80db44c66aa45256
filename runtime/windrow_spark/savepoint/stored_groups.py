"""Reads the key groups of a checkpoint in Spark's workers, and writes the state of each step into files of Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from windrow_runtime.codecs.records import UserClass
from windrow_spark.exchange.classes import register_classes
from windrow_spark.exchange.rows import dump_values, load_values
from windrow_spark.faults import failures_marked
from windrow_spark.savepoint.step_parts import StepPart
from windrow_spark.storage.group_record import GroupState, PagesInMemory
from windrow_spark.worker import infrequent_gc

# Any in this module: pyarrow has no types.

GROUP_SCHEMA: Final = "level int, `group` int, number bigint, data binary"
"""The columns of rows of stored groups: the number of a page; null: the data is the group's record."""

FACT_SCHEMA: Final = "fact binary"

_ROWS_OF_A_GROUP: Final = 64 << 10


class GroupTimes(NamedTuple):
    """The times in the record of a group without keys, which has those of the batch before."""

    watermark: int
    now: int


class StepFacts(NamedTuple):
    """What the record of a key group says of a step, beside its pages."""

    step: str  # the name under which its state is stored
    watermark: int
    now: int
    arrived: int
    shared: bytes


class WrittenFile(NamedTuple):
    """A file with the state of a step in one key group."""

    step: str
    file: str  # its name
    rows: int
    size: int  # in bytes


@dataclass(frozen=True, slots=True)
class FactReader:
    """Reads the records of groups in workers; yields the facts of each step, and the times of service groups."""

    parts: Mapping[str, StepPart]  # by the names of steps' state
    fingerprint: bytes

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes the Arrow batches of a partition, with records alone; yields facts as bytes."""
        with failures_marked():
            for batch in batches:
                for label, data in zip(
                    batch.column("group").to_pylist(), batch.column("data").to_pylist(), strict=True
                ):
                    yield _facts(self._of_group(label, data))

    def _of_group(self, label: int, data: bytes) -> Iterator[GroupTimes | StepFacts]:
        group = GroupState.load(data, self.fingerprint)
        if label < 0:
            yield GroupTimes(group.watermark, group.now)
        for step, record in group.steps.items():
            if step in self.parts:
                part = self.parts[step]
                yield StepFacts(step, record.watermark, record.now, part.arrived(record), part.shared(record))


def _facts(facts: Iterable[tuple[Any, ...]]) -> Any:
    rows = [dump_values([list(each)]) for each in facts]
    return pa.RecordBatch.from_arrays([pa.array(rows, pa.binary())], names=["fact"])


def decoded_facts(rows: Iterable[bytes]) -> Iterator[list[Any]]:
    """Yields the values of facts that workers have sent."""
    for data in rows:
        (values,) = load_values(data)
        yield values


@dataclass(frozen=True, slots=True)
class StateFileWriter:
    """Writes the state of all steps of key groups in workers, a file for each step and group."""

    parts: Mapping[str, StepPart]
    times: Mapping[str, GroupTimes]  # of each step, by the name of its state
    fingerprint: bytes
    classes: tuple[UserClass, ...]
    folders: Mapping[str, str]  # where the files of each step go

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Takes the Arrow batches of a partition by group; yields which files were written, as facts."""
        with failures_marked(), infrequent_gc():
            register_classes(self.classes)
            for level, label, data, pages in _groups_in(batches):
                yield _facts(self._written(level, label, data, pages))

    def _written(self, level: int, label: int, data: bytes, pages: PagesInMemory) -> Iterator[WrittenFile]:
        for step, record in GroupState.load(data, self.fingerprint).steps.items():
            part = self.parts.get(step)
            if part is None:
                continue
            # All groups are as of the last batch: some did not run in it, and had nothing that was due.
            record.watermark, record.now = self.times[step]
            folder = Path(self.folders[step])
            file = folder / f"group-{level}-{label}.parquet"
            count = _write(file, part.schema, part.rows(record, pages))
            if count:
                yield WrittenFile(step, file.name, count, file.stat().st_size)


def _write(file: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes rows into a file, whose name is there when it is whole; returns how many there are. Without any: none."""
    # A task that runs twice writes the same.
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    count = 0
    writer: pq.ParquetWriter | None = None
    try:
        for rows in batches:
            if rows.num_rows:
                writer = writer or pq.ParquetWriter(unfinished, schema, compression="zstd", write_page_checksum=True)
                writer.write_batch(rows, row_group_size=_ROWS_OF_A_GROUP)
                count += rows.num_rows
        if writer is not None:
            writer.close()
            unfinished.replace(file)
    finally:
        if writer is not None:
            writer.close()
        with suppress(FileNotFoundError):
            unfinished.unlink()
    return count


def _groups_in(batches: Iterator[Any]) -> Iterator[tuple[int, int, bytes, PagesInMemory]]:
    """Yields the groups of a partition, whose rows come by group, the record first."""
    rows = chain.from_iterable(zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in batches)
    for (level, label), of_group in groupby(rows, key=itemgetter(0, 1)):
        data: bytes | None = None
        pages = PagesInMemory()
        for _, _, number, content in of_group:
            if number is None:
                data = content
            else:
                pages[number] = content
        if data is not None:
            yield level, label, data, pages

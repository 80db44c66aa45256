"""Reads a savepoint as tables: what each key of each keyed step held. It starts no Spark, and needs no Java."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from windrow.errors import InvalidArgumentError, UnsupportedOperationError, similar_name
from windrow.plan import Pipeline
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import topology_of
from windrow_spark.columnar.forms.kept_objects import check_kept
from windrow_spark.exchange.classes import register_classes
from windrow_spark.lowering import physical_plan
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.savepoint.description import COLUMNS, SavedStep, SavepointFolder
from windrow_spark.savepoint.state_rows import STATE_ROWS, state_rows
from windrow_spark.savepoint.step_parts import ConvertedPart
from windrow_spark.shipping import known_classes

# Any in this module: pyarrow has no types.


class Savepoint:
    """A savepoint as tables, one for each keyed step; made by :func:`read`.

    ``savepoint["coldest"]`` is a ``pyarrow.Table`` with a row for each key that has state or timers:

    - ``key``: the key, as JSON.
    - ``windows``: its windows, with ``start`` and ``end`` in milliseconds since 1970, UTC, the ``contents`` and the
      state of the trigger and of the window function, as JSON. Contents are elements, or the accumulator of an
      aggregate.
    - ``state``: its keyed state by name, as JSON.
    - ``timers``: with their time in milliseconds and their domain, "event time" or "processing time".

    Rows have this form however the step ran. A step without a name is found as ``#`` with its kind and number, such as
    ``#window-1``.

    Attributes:
        steps: The names of the keyed steps.
        batch: The last batch whose effects are in the savepoint.
        watermark: The watermark of the query, in milliseconds.
    """

    def __init__(self, path: str | os.PathLike[str], pipeline: Pipeline | None = None) -> None:
        self._folder = SavepointFolder.at(path)
        self._pipeline = pipeline
        self._description = self._folder.description()
        self.steps: tuple[str, ...] = tuple(self._description.steps)
        self.batch = self._description.batch
        self.watermark = self._description.watermark

    def __iter__(self) -> Iterator[str]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __contains__(self, step: object) -> bool:
        return step in self._description.steps

    def __repr__(self) -> str:
        return f"Savepoint({str(self._folder.path)!r}, batch {self.batch}, steps {', '.join(self) or 'none'})"

    def __getitem__(self, step: str) -> pa.Table:
        """Reads the state of a step.

        Raises:
            KeyError: If there is no such step.
            InvalidArgumentError: If its state is in columns, and :func:`read` was given no pipeline.
            UnsupportedOperationError: If its state is in columns that do not say what windows there are.
            CheckpointError: If a file is damaged.
        """
        saved = self._description.steps[step]
        if saved.form == COLUMNS:
            return self._from_columns(step, saved)
        tables = [
            pq.read_table(file, columns=STATE_ROWS.names, page_checksum_verification=True)
            for file in self._files(step, saved)
        ]
        return pa.concat_tables([STATE_ROWS.empty_table(), *tables])

    def form(self, step: str) -> str:
        """Returns how a step kept its state: in ``"columns"`` or as ``"objects"``.

        Args:
            step: The name of the step.
        """
        return self._description.steps[step].form

    def columns(self, step: str) -> pa.Table:
        """Reads the state of a step that ran on columns as a ``pyarrow.Table`` with the columns in which it was stored.

        Args:
            step: The name of the step.

        Raises:
            KeyError: If there is no such step.
            InvalidArgumentError: If the step ran on objects.
        """
        saved = self._description.steps[step]
        if saved.form != COLUMNS or not saved.files:
            raise InvalidArgumentError(
                "the savepoint has no columns of this step",
                given=step,
                expected="a step that ran on columns and has state",
                hint=f"savepoint[{step!r}] has what each key held",
            )
        return pa.concat_tables([_table(file) for file in self._files(step, saved)])

    def _files(self, step: str, saved: SavedStep) -> Iterator[str]:
        return (str(self._folder.folder_of(step) / file.name) for file in saved.files)

    def _from_columns(self, step: str, saved: SavedStep) -> pa.Table:
        if self._pipeline is None:
            raise InvalidArgumentError(
                "the state of this step is in columns, whose meaning only its pipeline knows",
                given=step,
                expected="read(path, pipeline)",
                hint=f"savepoint.columns({step!r}) has the columns as they are; "
                "windrow state PATH FILE:PIPELINE names the pipeline on the command line",
            )
        part = _converted(self._pipeline, step, saved)
        batches: list[Any] = []
        for path in self._files(step, saved):
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                batches += [state_rows(state) for state in part.saved(file)]
        return pa.Table.from_batches(batches, schema=STATE_ROWS)


def _table(file: str, columns: Sequence[str] | None = None) -> Any:
    """Reads a file of a savepoint, whose pages have checksums."""
    names = None if columns is None else list(columns)
    return pq.read_table(file, columns=names, page_checksum_verification=True)


def _converted(pipeline: Pipeline, step: str, saved: SavedStep) -> ConvertedPart:
    """Returns what makes objects of the columns of a step."""
    topology = topology_of(pipeline)
    names = {name: step_id for step_id, name in PhysicalPlan(topology).state_ids.items()}
    if step not in names:
        raise InvalidArgumentError(
            "the pipeline has no step of this name",
            given=step,
            expected=", ".join(names),
            hint=similar_name(step, names),
        )
    plan = physical_plan(topology, stored=[names[step]])
    planned = plan.keyed[names[step]]
    form = planned.on_columns
    if form is None:
        raise UnsupportedOperationError(
            "the pipeline has this step on objects, and its state was stored in columns",
            given=step,
            expected="the pipeline that ran",
            where=planned.step.where,
        )
    try:
        kept = check_kept(form)
    except DeclinedError as declined:
        raise UnsupportedOperationError(
            "the state of this step cannot be read as windows of keys",
            given=f"{step}: {form.describe().name}: {declined}",
            expected="tumbling or sliding windows or sessions, by event time, that fire at their end",
            where=planned.step.where,
            hint=f"savepoint.columns({step!r}) has the columns as they are stored",
        ) from None
    classes = known_classes(topology.steps)
    register_classes(classes)
    return ConvertedPart(planned.step, classes, pipeline.allow_pickled_state, form=kept, watermark=saved.watermark)


def read(path: str | os.PathLike[str], pipeline: Pipeline | None = None) -> Savepoint:
    """Opens a savepoint.

    Args:
        path: The folder of the savepoint.
        pipeline: The pipeline that ran. Without it the steps that ran on columns can only be read as they are stored,
            by :meth:`Savepoint.columns`.

    Raises:
        InvalidArgumentError: If there is no savepoint in the folder.
        IncompatibleStateError: If it has another format.
        CheckpointError: If a file is missing or damaged.
    """
    return Savepoint(path, pipeline)

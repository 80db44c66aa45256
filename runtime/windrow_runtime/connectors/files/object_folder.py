"""Claims the folders of file sinks in object stores for a run, and writes the batches of the interpreter there.

It does what :mod:`windrow_runtime.connectors.files.owner` does in mounted file systems. A store has no locks: a note in
the folder names its run, which looks at it before each batch, and again before the files of the batch are published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Final

from windrow.addresses.paths import BATCH_COLUMN, BATCH_PREFIX
from windrow.errors import SinkError
from windrow.plan import Step
from windrow_runtime.connectors.files.objects import ObjectPath, listed_below
from windrow_runtime.connectors.files.owner import OWNER, file_sink_of, other_run, taken_folder
from windrow_runtime.connectors.files.partition_columns import partitions_of
from windrow_runtime.connectors.files.parts import part_of_task
from windrow_runtime.connectors.files.staged import StagedBatch
from windrow_runtime.operators.errors import sink_errors
from windrow_runtime.outputs.output import Identity, Output, written_type

_NOTE: Final = "owner"
_IN_BATCH: Final = re.compile(rf"([^/]+=[^/]*/)*{BATCH_COLUMN}=\d+/[^/]+", re.ASCII)
"""A file of a batch, below the folders of ``partition_by``; elsewhere below there may be the sinks of others."""


class ObjectFolder:
    """The folder of a file sink in an object store."""

    def __init__(self, step: Step, folder: ObjectPath) -> None:
        self._step = step
        self._sink = file_sink_of(step)
        self._folder = folder

    def check_free(self, run: str, *, begins: bool) -> None:
        """Raise a ``SinkError`` for a folder that a run may not write; changes nothing."""
        with sink_errors(self._step, self._sink.path):
            first = next(self._batches(), None)
            if first is None or self._owner() == run or (self._sink.overwrite and begins):
                return
        raise self._other_run(first, begins=begins)

    def _other_run(self, file: ObjectPath, *, begins: bool = True) -> SinkError:
        return other_run(self._step, f"{self._sink.shown_path} with {file.name}", begins=begins)

    def take_over(self, run: str) -> None:
        """Note a run as the owner of the folder, and remove the batches of the runs before."""
        with sink_errors(self._step, self._sink.path):
            note = self._folder / OWNER / _NOTE
            before = self._owner()
            if before != run:
                # A run that still lives publishes no more batches; one that dies here is not the owner yet.
                note.write(f"{run}, which deletes".encode())
                files = list(self._batches())
                if files and not self._sink.overwrite:  # of a run that began at the same time
                    note.write((before or "another run").encode())
                    raise self._other_run(files[0])
                files += (self._folder / OWNER).rglob("*")
                self._folder.delete([file.key for file in files if file.key != note.key])
            note.write(run.encode())

    def check_owner(self, run: str) -> None:
        """Raise a ``SinkError`` if another run has taken the folder."""
        with sink_errors(self._step, self._sink.path):
            owner = self._owner()
        if owner not in (run, None):
            raise taken_folder(self._sink, self._step)

    def _batches(self) -> Iterator[ObjectPath]:
        """Yields the files of batches."""
        for each in listed_below(self._folder):
            name = each.key[len(self._folder.key) :].lstrip("/")
            if _IN_BATCH.fullmatch(name):
                yield self._folder / name

    def _owner(self) -> str | None:
        """Returns the run that the folder belongs to, by its note or, from Spark's writers, by the mark of a batch."""
        with suppress(FileNotFoundError):
            return (self._folder / OWNER / _NOTE).read_bytes().decode()
        for mark in (self._folder / OWNER).glob(f"{BATCH_PREFIX}*"):
            return str(json.loads(mark.read_bytes())["query"])
        return None


class ObjectOutput(Output):
    """Writes the batches of a file sink in an object store, each once."""

    def __init__(self, step: Step, folder: ObjectPath, identity: Identity) -> None:
        self._step = step
        self._folder = folder
        self._query = identity.query
        self._kind = written_type(step)
        self._partitions = partitions_of(step)

    def write(self, batch: int, values: Sequence[Any]) -> None:
        staged = StagedBatch(self._folder, self._query, batch)
        with sink_errors(self._step, self._folder.url):
            if not values:
                return
            part = part_of_task(self._step, self._kind, self._partitions, staged.parts, "part-0")
            with closing(part) as file:
                file.write(values)
                names = file.take_names()
            staged.publish(staged.parts, names)

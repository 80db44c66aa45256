"""Answers what engines ask of a sink that writes files."""

from __future__ import annotations

import copy
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from windrow.addresses.paths import BATCH_PREFIX, local_path
from windrow.sinks import CsvFileSink, FileSink, ParquetFileSink
from windrow_runtime.codecs.pyarrow_check import check_parquet
from windrow_runtime.connectors.files.object_folder import ObjectFolder, ObjectOutput
from windrow_runtime.connectors.files.objects import ObjectPath, not_opened
from windrow_runtime.connectors.files.owner import check_folder, check_owner, lock_folder, own_folder
from windrow_runtime.connectors.files.parts import FileOutput, encoder_of_files
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.outputs.output import Identity, Output, written_type
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.

_FILE: Final = re.compile(rf"{BATCH_PREFIX}(\d+)-part-[^/]*")


class FileWriter(SinkWriter[FileSink[Any]]):
    """Writes text, JSON, CSV and Parquet files."""

    def output(self, identity: Identity) -> Output:
        objects = self.objects
        return FileOutput(self.step) if objects is None else ObjectOutput(self.step, objects, identity)

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        return encoder_of_files(self.step)

    def check_local(self) -> None:
        if isinstance(self.sink, ParquetFileSink):
            with errors_at(self.step.where):
                check_parquet()
        written_type(self.step)
        if self.folder is None and self.objects is None:
            raise not_opened(self.sink.path, self.sink.shown_path, self.step.where)

    @property
    def folder(self) -> Path | None:
        """The folder of the sink, if its file system is mounted."""
        path = local_path(self.sink.path)
        return None if path is None else Path(path)

    @property
    def objects(self) -> ObjectPath | None:
        """The folder of the sink, if it is in an object store that windrow opens."""
        return ObjectPath.of(self.sink.path)

    @property
    def _in_objects(self) -> ObjectFolder | None:
        objects = self.objects
        return None if objects is None else ObjectFolder(self.step, objects)

    @property
    def target(self) -> Target:
        text = self.sink.shown_path if self.folder is None else os.path.realpath(self.folder)
        return Target(FileSink.__name__, text, is_exact=True)

    def moved_to(self, folder: Path) -> FileWriter | None:
        if self.folder is None:
            return None
        sink = copy.copy(self.sink)
        folder.mkdir(parents=True)
        sink.path = str(folder)
        changes: dict[str, Any] = {"sink": sink}  # Any: the node is that of a sink
        return FileWriter(sink, replace(self.step, node=replace(self.step.node, **changes)))

    def rows_written(self, batches: Collection[int]) -> dict[tuple[int, str], Counter[str]]:
        folder = Path(local_path(self.sink.path) or self.sink.path)
        rows: dict[tuple[int, str], Counter[str]] = {}
        for file in sorted(folder.rglob(f"{BATCH_PREFIX}*")):
            match = _FILE.fullmatch(file.name)
            if match is not None and int(match[1]) in batches and file.is_file():
                key = int(match[1]), file.parent.relative_to(folder).as_posix().removeprefix(".")
                rows.setdefault(key, Counter()).update(self._rows_in(file))
        return rows

    def _rows_in(self, file: Path) -> Iterable[str]:
        if file.suffix == ".parquet":
            # Arrow only where Parquet is read: the interpreter runs without it.
            import pyarrow.parquet

            return map(repr, pyarrow.parquet.ParquetFile(file).read().to_pylist())
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        return lines[1:] if isinstance(self.sink, CsvFileSink) and self.sink.header else lines

    def check_free(self, run: str, *, begins: bool) -> None:
        if self.folder is not None:
            check_folder(self.sink, self.step, self.folder, run, begins=begins)
        elif (objects := self._in_objects) is not None:
            objects.check_free(run, begins=begins)

    def lock(self, is_live: Callable[[], bool]) -> Callable[[], None] | None:
        return None if self.folder is None else lock_folder(self.sink, self.step, self.folder, is_live)

    def take_over(self, run: str) -> None:
        if self.folder is not None:
            own_folder(self.sink, self.step, self.folder, run)
        elif (objects := self._in_objects) is not None:
            objects.take_over(run)

    def check_owner(self, run: str) -> None:
        if self.folder is not None:
            check_owner(self.sink, self.step, self.folder, run)
        elif (objects := self._in_objects) is not None:
            objects.check_owner(run)

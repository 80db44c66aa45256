"""Answers what engines ask of a sink that writes files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windrow.addresses.paths import local_path
from windrow.errors import UnsupportedOperationError
from windrow.sinks import FileSink, ParquetFileSink
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_parquet
from windrow_runtime.connectors.files.owner import check_folder, check_owner, lock_folder, own_folder
from windrow_runtime.connectors.files.parts import FileOutput
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.writer import SinkWriter, Target

# Any in this module: elements of every type.


class FileWriter(SinkWriter[FileSink[Any]]):
    """Writes text, JSON, CSV and Parquet files."""

    def output(self, identity: Identity) -> Output:
        return FileOutput(self.step)

    def check_local(self) -> None:
        if isinstance(self.sink, ParquetFileSink):
            with errors_at(self.step.where):
                check_parquet()
        record_type(self.step.node.element_type)
        if self.folder is None:
            raise UnsupportedOperationError(
                "the interpreter writes to mounted file systems only",
                given=self.sink.shown_path,
                expected="a path, or a file: URI",
                where=self.step.where,
                hint="run the pipeline with SparkRunner",
            )

    @property
    def folder(self) -> Path | None:
        """The folder of the sink, if its file system is mounted."""
        path = local_path(self.sink.path)
        return None if path is None else Path(path)

    @property
    def target(self) -> Target:
        text = self.sink.shown_path if self.folder is None else os.path.realpath(self.folder)
        return Target(FileSink.__name__, text, is_exact=True)

    def check_free(self, run: str, *, begins: bool) -> None:
        if self.folder is not None:
            check_folder(self.sink, self.step, self.folder, run, begins=begins)

    def lock(self, is_live: Callable[[], bool]) -> Callable[[], None] | None:
        return None if self.folder is None else lock_folder(self.sink, self.step, self.folder, is_live)

    def own(self, run: str) -> None:
        if self.folder is not None:
            own_folder(self.sink, self.step, self.folder, run)

    def check_owner(self, run: str) -> None:
        if self.folder is not None:
            check_owner(self.sink, self.step, self.folder, run)

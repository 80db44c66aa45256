"""Describes a savepoint: the files of each step, the times at which they were taken, and the format."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from windrow.addresses.paths import local_path, reads_from
from windrow.addresses.redaction import redact_address
from windrow.errors import IncompatibleStateError, InvalidArgumentError
from windrow.plan import Step
from windrow_runtime.operators.topology import source_of
from windrow_runtime.outputs.whole_files import checksum
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.storage import StoragePath
from windrow_spark.checkpoint.stored_file import StoredFile, checkpoint_errors, damaged_file

FORMAT: Final = 1
"""The version of the format of savepoints. A savepoint of another one is refused."""

COLUMNS: Final = "columns"
OBJECTS: Final = "objects"
"""The values of ``SavedStep.form``."""

_LONGEST_NAME: Final = 200
_SHOWN_OF_NAME: Final = 100
"""The most characters of the name of a step's folder, and how many of a longer name it shows. File systems take 255."""


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file with a part of the state of a step, in the folder of the step.

    Attributes:
        name: The name of the file.
        rows: How many rows it has.
        size: How many bytes it has.
    """

    name: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class SavedStep:
    """The state of one keyed step in a savepoint.

    Attributes:
        form: ``"columns"``, or ``"objects"``: pages of Python objects, beside rows that people read.
        watermark: The watermark under which the step ran last, in milliseconds.
        now: The processing time at which it ran last, in milliseconds.
        arrived: How many elements may have numbers of their arrival.
        shared: What belongs to no key, such as broadcast state, in base64.
        files: The files with the state.
    """

    form: str
    watermark: int
    now: int
    arrived: int
    shared: str
    files: Sequence[SavedFile] = ()

    @property
    def rows(self) -> int:
        """Counts the rows in all files; where the state is objects, there is one for each key."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Adds up the bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class SavepointDescription:
    """The contents of a savepoint.

    Attributes:
        version: The version of the format.
        windrow: The version of windrow that wrote it.
        id: No other savepoint has this text.
        batch: The last batch whose effects are in the savepoint.
        is_live: Whether the pipeline ran when it was taken, and went on.
        checkpoint: The folder of the checkpoint whose state it has.
        watermark: The watermark of the whole query, in milliseconds.
        now: The processing time of the batch, in milliseconds.
        steps: The state of each keyed step, by the name under which it is stored.
        logs: The checksum of each file in the folder ``checkpoint``, by its path in there.
    """

    version: int
    windrow: str
    id: str
    batch: int
    is_live: bool
    checkpoint: str
    watermark: int
    now: int
    steps: Mapping[str, SavedStep]
    logs: Mapping[str, str]


class SavepointFolder:
    """Names the files of a savepoint: ``state`` has a folder for each keyed step, ``checkpoint`` the driver's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = StoredFile(path / "savepoint", SavepointDescription)
        self.checkpoint = Checkpoint(path / "checkpoint")

    @staticmethod
    def at(path: str | os.PathLike[str]) -> SavepointFolder:
        """Names the folder of a savepoint; refuses one in a file system that is not mounted."""
        text = os.fspath(path)
        local = local_path(text)
        if local is None:
            raise InvalidArgumentError(
                "a savepoint lies in a file system that all machines have mounted",
                given=redact_address(text),
                expected="a path in a mounted file system",
                hint="copy its folder elsewhere when it is written",
            )
        return SavepointFolder(Path(local).absolute())

    def folder_of(self, step: str) -> Path:
        """Returns the folder with the files of a step, by the name under which its state is stored."""
        name = quote(step, safe=" #")
        if name.strip(".") and len(name) <= _LONGEST_NAME:
            return self.path / "state" / name
        # No folder has such a name, or it is another folder's.
        return self.path / "state" / f"{name[:_SHOWN_OF_NAME]}%{checksum(step, b'')}"

    def is_own(self, entry: Path) -> bool:
        """Returns whether a savepoint that is being written may have a file or folder of this name."""
        # A file is written under a name that ends in a number of its own, see `write_whole`.
        own = entry.name in ("state", "checkpoint") and entry.is_dir() and not entry.is_symlink()
        return own or entry == self.file.path or entry.name.startswith(f"_{self.file.path.name}.")

    def check_apart(self, checkpoint: StoragePath, sources: Iterable[Step] = ()) -> None:
        """Refuses a savepoint in a checkpoint, a checkpoint in a savepoint, and a savepoint that a source would read.

        A checkpoint that begins anew removes what is in its folder.
        """
        own, other = self.path.resolve(), Path(checkpoint).resolve() if isinstance(checkpoint, Path) else None
        if other is not None and (own.is_relative_to(other) or other.is_relative_to(own)):
            raise InvalidArgumentError(
                "a savepoint and a checkpoint have folders of their own",
                given=f"the savepoint {self.path}, the checkpoint {checkpoint}",
                expected="folders of which none lies in the other",
            )
        for step in sources:
            for folder in source_of(step).read_folders:
                if reads_from(folder, str(self.path)):
                    raise InvalidArgumentError(
                        "the savepoint lies in a folder that a source reads, so the source would read it",
                        given=str(self.path),
                        expected=f"a folder outside of {redact_address(folder)}",
                        where=step.where,
                    )

    def create(self) -> None:
        """Creates the folder, which may exist if nothing is in it."""
        with checkpoint_errors(self.path):
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise InvalidArgumentError(
                    "a savepoint is written into a folder of its own",
                    given=str(self.path),
                    expected="a folder that does not exist, or is empty",
                )
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def checksums(self) -> dict[str, str]:
        """Returns the checksum of each file in the folder ``checkpoint``, by its path in there."""
        logs = Path(self.checkpoint.path)
        with checkpoint_errors(self.path):
            files = [file for file in sorted(logs.rglob("*")) if file.is_file()]
            return {name: checksum(name, file.read_bytes()) for file in files for name in [f"{file.relative_to(logs)}"]}

    def description(self) -> SavepointDescription:
        """Returns the description of a savepoint that is whole.

        Raises:
            InvalidArgumentError: If the folder has no savepoint, or one that was never finished.
            IncompatibleStateError: If it has another format.
            CheckpointError: If a file is missing or damaged.
        """
        description = self.file.read()
        if description is None:
            raise InvalidArgumentError(
                "there is no savepoint, or it was not written to its end",
                given=str(self.path),
                expected="the folder of a savepoint",
                hint="take one of a checkpoint first: windrow savepoint CHECKPOINT FILE SAVEPOINT",
            )
        if description.version != FORMAT:
            raise IncompatibleStateError(
                "the savepoint has another format",
                given=f"version {description.version}, by windrow {description.windrow}",
                expected=f"version {FORMAT}",
                where=str(self.path),
                hint="take it anew with this version of windrow",
            )
        for name, step in description.steps.items():
            for file in step.files:
                path = self.folder_of(name) / file.name
                with checkpoint_errors(self.path):
                    size = path.stat().st_size if path.exists() else -1
                if size != file.size:
                    lost = "it is gone" if size < 0 else f"it has {size} bytes, and {file.size} were written"
                    raise damaged_file(path, lost)
        checksums = self.checksums()
        for name, written in description.logs.items():
            if checksums.get(name) != written:
                raise damaged_file(
                    Path(self.checkpoint.path, name), "it was changed" if name in checksums else "it is gone"
                )
        return description

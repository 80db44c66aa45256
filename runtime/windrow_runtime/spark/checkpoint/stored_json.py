"""Reads and writes the JSON files of a checkpoint, each with a checksum and a type.

A changed time or number of partitions in such a file would lose rows. So a reader takes a file only if it has the
checksum that its writer computed, of the file's name and its content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from operator import index
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import msgspec

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.outputs.whole_files import write_whole
from windrow_runtime.spark.checkpoint.small_files import checkpoint_errors, damaged_file

__all__ = ["StoredTime", "read_json", "read_partly", "write_json"]

T = TypeVar("T")

# Any in this module: what JSON holds.

StoredTime = Annotated[int, msgspec.Meta(ge=MIN_TIMESTAMP, le=MAX_TIMESTAMP)]
"""A time in milliseconds, as the plan has it: within 64 bits."""

_CHECKSUM: Final = "checksum"
_CHECKSUM_BYTES: Final = 16


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a file that :func:`read_json` reads. Nobody sees half of it.

    Raises:
        CheckpointError: If it cannot be written.
    """
    # By way of its text, since tuples and numpy's integers come back as lists and ints.
    plain = json.loads(json.dumps(content, default=index, allow_nan=False))
    with checkpoint_errors(file.parent):
        write_whole(file, json.dumps({**plain, _CHECKSUM: _checksum(file, plain)}, indent=1))


def read_json(file: Path, kind: type[T]) -> T | None:
    """Read a file that :func:`write_json` wrote.

    Args:
        file: The file.
        kind: The class of its content: one for which msgspec knows the types of its fields.

    Returns:
        The content; None: there is no file.

    Raises:
        CheckpointError: If the file cannot be read, or is not as it was written.
    """
    content = _parsed(file)
    if content is None:
        return None
    written = content.pop(_CHECKSUM, None)
    try:
        if written != _checksum(file, content):
            raise ValueError("the file was changed: its checksum is another one")
        return msgspec.convert(content, kind)
    except (ValueError, RecursionError) as error:
        raise damaged_file(file, f"{error}") from error


def read_partly(file: Path, kind: type[T]) -> T | None:
    """Read some fields of a file as :func:`read_json` does, without a look at its checksum and other fields."""
    content = _parsed(file)
    if content is None:
        return None
    try:
        return msgspec.convert(content, kind)
    except (ValueError, RecursionError) as error:
        raise damaged_file(file, f"{error}") from error


def _parsed(file: Path) -> dict[str, Any] | None:
    with checkpoint_errors(file.parent):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return None
    try:
        content = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise damaged_file(file, f"{error}") from error
    if not isinstance(content, dict):
        raise damaged_file(file, f"a JSON object was written, and it is a {type(content).__name__}")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _checksum(file: Path, content: Mapping[str, Any]) -> str:
    text = json.dumps([file.name, content], sort_keys=True, allow_nan=False)
    return blake2b(text.encode(), digest_size=_CHECKSUM_BYTES).hexdigest()

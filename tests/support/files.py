"""Files that tests of runs write: what a source reads, and what a crash leaves of a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

__all__ = ["forget_batch", "put"]


# Any: records are dicts, named tuples, dataclasses, or lines of text.
def put(folder: Path, name: str | int, records: Iterable[Any], *, second: int | None = None) -> None:
    """Adds a file of JSON lines, which is whole as soon as a source sees it.

    Args:
        folder: The folder, which is made if it is missing.
        name: The name of the file without its suffix.
        records: What the lines hold; a text is a line as it is.
        second: When the file was changed, since Spark reads older files first; None: now.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f"{_line(record)}\n" for record in records), encoding="utf-8")
    if second is not None:
        os.utime(hidden, (1_600_000_000 + second,) * 2)
    hidden.rename(folder / f"{name}.json")


def _line(record: Any) -> str:
    if isinstance(record, str):
        return record
    if is_dataclass(record) and not isinstance(record, type):
        return json.dumps(asdict(record))
    return json.dumps(record if isinstance(record, dict) else record._asdict())


def forget_batch(checkpoint: Path, number: int) -> None:
    """Has Spark run a batch again, as after a crash between the sinks and Spark's note that the batch is done."""
    commits = checkpoint / "spark" / "commits"
    (commits / str(number)).unlink()
    (commits / f".{number}.crc").unlink(missing_ok=True)

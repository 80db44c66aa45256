"""Which files a killed pipeline took in each batch: from Spark's notes, so that another run can take the same.

Each batch takes a file, but for those of a start that was killed between two notes of Spark's: that a source gives a
file, and that a batch takes it. The next start gives another file besides, and its first batch takes both. What is late
depends on that.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from windrow_spark.checkpoint.file_log import MergedFileLog
from windrow_spark.checkpoint.spark_files import LogOffset

__all__ = ["give_next", "given", "taken", "write_taken"]

_COMPACT = 10  # Spark writes every tenth note as one of all


def taken(spark_folder: Path, source: int) -> list[list[Path]]:
    """The files of each batch, for the source of a number; of batches that took nothing, too."""
    files = given(spark_folder, source)
    found: list[list[Path]] = []
    last = -1
    notes = (note for note in (spark_folder / "offsets").iterdir() if note.name.isdigit())
    for note in sorted(notes, key=lambda note: int(note.name)):
        line = note.read_text(encoding="utf-8").splitlines()[2 + source]
        until = last if line == "-" else msgspec.json.decode(line, type=LogOffset).read - 1
        found.append([path for number in range(last + 1, until + 1) for path in files[number]])
        last = until
    return found


def given(spark_folder: Path, source: int) -> dict[int, list[Path]]:
    """The files that the source of a number gave, by the number under which it did; maybe to no batch yet."""
    own = _own_log(spark_folder, source)
    if own.exists():
        folder = spark_folder.parents[1] / "in"
        entries = MergedFileLog(own).read().items()
        return {number: [folder / Path(unquote(name)).name for name in names] for number, names in entries}
    found: dict[int, dict[Path, None]] = {}
    for file in (spark_folder / "sources" / str(source)).iterdir():
        # Every tenth file holds all that those before it say.
        if file.name.removesuffix(".compact").isdigit():
            for line in file.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                path = Path(unquote(urlsplit(entry["path"]).path))
                found.setdefault(entry["batchId"], {})[path] = None
    return {number: list(paths) for number, paths in found.items()}


def _own_log(spark_folder: Path, source: int) -> Path:
    """The log of the files of a source whose batches windrow plans, as on S3."""
    return spark_folder.parent / "sources" / f"{source + 1}" / "files-of-batches"


def give_next(spark_folder: Path, source: int, folder: Path) -> Path | None:
    """Note, as Spark does, that a source gives the next file of a folder; as if a kill came right behind that.

    Not where the note would be one of all, nor where windrow plans the batches: then nothing is noted.

    Returns:
        The note, or None.
    """
    if _own_log(spark_folder, source).exists():
        return None
    before = given(spark_folder, source)
    number = max(before) + 1
    if number % _COMPACT == _COMPACT - 1:
        return None
    file = sorted(folder.iterdir())[sum(map(len, before.values()))]
    entry = {"path": file.as_uri(), "timestamp": int(file.stat().st_mtime) * 1000, "batchId": number}
    log = spark_folder / "sources" / str(source) / str(number)
    log.write_text(f"v1\n{json.dumps(entry)}", encoding="utf-8")
    return log


def write_taken(spark_folder: Path, folders: list[Path]) -> int:
    """Write what each source gave to a folder of its own, one file for each batch that took anything.

    Gives the number of batches that took several files of a source.
    """
    batches = list(zip(*(taken(spark_folder, number) for number in range(len(folders))), strict=True))
    batches = [batch for batch in batches if any(batch)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        for place, batch in enumerate(batches):
            text = "".join(file.read_text(encoding="utf-8") for file in batch[number])
            (folder / f"{place:04d}.json").write_text(text, encoding="utf-8")
    return sum(any(len(files) > 1 for files in batch) for batch in batches)

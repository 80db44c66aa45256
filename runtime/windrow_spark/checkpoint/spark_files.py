"""Checks whether Spark's part of a checkpoint is complete, and removes unfinished files of a process that died.

Spark stores planned batches in ``offsets``, done batches in ``commits``, and the progress of sources in ``sources``.
If one of these is gone, Spark begins anew without an error, and skips rows or uses numbers of batches a second time.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

import msgspec

from windrow_spark.checkpoint.storage import StoragePath, clear
from windrow_spark.checkpoint.stored_file import checkpoint_errors, damaged_file, file_numbers
from windrow_spark.paths import path_of_url

_LOGS: Final = ("offsets", "commits")
_FORMAT: Final = "v1"
_HEAD: Final = 2
_GONE: Final = "it is gone"
_BEGUN: Final = f"{_GONE}, and batches have run"
_COMPACT: Final = ".compact"
_UUID: Final = "[0-9a-f]+(-[0-9a-f]+)*"
# Spark writes a file of a log under a temporary name with a UUID, with a checksum file beside it.
_UNFINISHED: Final = re.compile(
    rf"\.(\d{{1,18}}|metadata)\.{_UUID}\.tmp|\.\.(\d{{1,18}}|metadata)\.{_UUID}\.tmp\.crc", re.ASCII
)
_CHECKSUM: Final = re.compile(r"\.(\d{1,18}|metadata)\.crc", re.ASCII)
_STATE_FILE: Final = re.compile(r"\d+(_[^.]*)?\.(zip|changelog|delta|snapshot)")


def last_number(folder: StoragePath) -> int:
    """Returns the highest number of a file in the folder of a log; -1: there is none."""
    return max(file_numbers(folder), default=-1)


def is_logged(spark: StoragePath, file: StoragePath) -> bool:
    """Returns whether the log of a source has a file; Spark writes it before it plans the batch that reads the file."""
    name = json.dumps(f"/{file.parent.name}/{file.name}")[2:].encode()
    with checkpoint_errors(spark):
        logs = (entry for log in (spark / "sources").glob("*") for entry in log.glob("[!_.]*"))
        return any(name in entry.read_bytes() for entry in logs)


class _PlannedTime(msgspec.Struct):
    """The watermark under which a batch runs, in Spark's log of offsets."""

    watermark: int = msgspec.field(name="batchWatermarkMs")


class _DoneTime(msgspec.Struct):
    """The watermark after a batch, in Spark's log of commits."""

    watermark: int = msgspec.field(name="nextBatchWatermarkMs")


def has_settled(spark: StoragePath, batch: int) -> bool:
    """Returns whether a batch that is done has left Spark's watermark where it was, so that nothing more is due."""
    with checkpoint_errors(spark):
        planned, done = (_second_line(spark / log / str(batch)) for log in _LOGS)
    try:
        before = msgspec.json.decode(planned, type=_PlannedTime).watermark
        return msgspec.json.decode(done, type=_DoneTime).watermark == before
    except ValueError:
        return False  # Spark itself refuses a damaged file, and another format may say less


def _second_line(file: StoragePath) -> bytes:
    return b"".join(file.read_bytes().splitlines()[1:_HEAD])


def check_spark_files(spark: StoragePath, newest: int, *, stateful: bool) -> None:
    """Refuse a folder of Spark's with missing files if Spark would go on as if these had never existed.

    ``newest`` is the number of the newest batch that is known to have run; -1: none.
    """
    with checkpoint_errors(spark):
        # In this order, since the query of a DataFrame may be running: Spark plans a batch when the one before is done.
        planned = file_numbers(spark / "offsets")
        last_committed = last_number(spark / "commits")
        last = max(planned, default=-1)
        metadata = _bytes_of(spark / "metadata")
        has_state = any((spark / "state").glob("*"))
    unplanned = f"batch {newest} has run, and Spark's newest plan is that of batch {last}" if planned else _BEGUN
    lost = (
        (last < last_committed, "offsets", f"batch {last_committed} is done, and its plan is gone"),
        (last < newest, f"offsets/{newest}", unplanned),
        (last >= 0 and metadata is None, "metadata", _BEGUN),
        (last > 0 and last - 1 not in planned, f"offsets/{last - 1}", f"{_GONE}, and batch {last} goes on from there"),
        (last_committed < last - 1, f"commits/{last - 1}", f"{_GONE}, and batch {last} is planned"),
        (stateful and last_committed >= 0 and not has_state, "state", _BEGUN),
    )
    for is_lost, file, reason in lost:
        if is_lost:
            raise damaged_file(spark / file, reason)
    if planned and metadata is not None:  # before the first plan it may be incomplete
        with _read_of(spark / "metadata"):
            _IDENTITY.decode(metadata)


def check_source_logs(spark: StoragePath, sources: int) -> None:
    """Refuse a folder in which the log of a source does not reach up to the newest batch.

    Spark would give missing numbers to new files, and take those files for read; and it would read files again that are
    missing in an entry.
    """
    batch = last_number(spark / "offsets")
    if batch < 0:
        return
    offsets = spark / "offsets" / str(batch)
    with checkpoint_errors(spark):
        lines = offsets.read_bytes().decode(errors="replace").splitlines()
    # Spark itself refuses a file of another format. A DataFrame may bring several sources, or one twice.
    if lines[:1] != [_FORMAT] or len(lines) != _HEAD + sources:
        return
    for number, line in enumerate(lines[_HEAD:]):
        log = spark / "sources" / str(number)
        with checkpoint_errors(log):
            missing = _missing_entry(log, offsets, line)
        if missing is not None:
            raise damaged_file(log / str(missing), f"{_GONE}, and batch {batch} has read the source beyond")


class _Metadata(msgspec.Struct):
    """The identity that Spark gave the query."""

    id: UUID


class LogOffset(msgspec.Struct, forbid_unknown_fields=True):
    """How far the log of a source of files was read: Spark's up to its last entry, or one of windrow's."""

    last: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = msgspec.field(name="logOffset", default=-1)
    entries: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def read(self) -> int:
        """Returns how many entries were read; the log of windrow begins with those of Spark's."""
        return self.last + 1 if self.entries is None else self.entries


class _FileLine(msgspec.Struct):
    """A line of Spark's log of files that were read."""

    path: str
    timestamp: int
    entry: int = msgspec.field(name="batchId")


_IDENTITY: Final = msgspec.json.Decoder(_Metadata)
_ENTRY: Final = msgspec.json.Decoder(_FileLine)

_KafkaOffset: TypeAlias = dict[str, dict[Annotated[str, msgspec.Meta(pattern="^[0-9]+$")], int]]


def _missing_entry(log: StoragePath, offsets: StoragePath, line: str) -> int | None:
    """Returns the first entry that the log of a source lacks, by its line in the offsets; None: it lacks none."""
    with _read_of(offsets):
        try:
            offset: Any = json.loads(line)  # Any: each class of sources has another format
        except json.JSONDecodeError:
            return None  # "-": nothing was read
        # A topic of Kafka may have that name, too.
        if isinstance(offset, dict) and offset.keys() == {"logOffset"} and not isinstance(offset["logOffset"], dict):
            return _check_file_log(log, msgspec.convert(offset, LogOffset).last)
    try:
        # The rate source and Kafka store their initial offsets in their logs.
        began = offset != {} and msgspec.convert(offset, int | _KafkaOffset) is not None
    except msgspec.ValidationError:
        return None
    return 0 if began and not (log / "0").exists() else None


def _check_file_log(log: StoragePath, last: int) -> int | None:
    """Returns the first entry that the log of a source of files lacks, or None; refuses incomplete entries."""
    names = file_numbers(log)
    # A compact entry contains all earlier ones, which Spark deletes.
    compact = max((number for number in file_numbers(log, suffix=_COMPACT) if number <= last), default=-1)
    missing = next((number for number in range(compact + 1, last + 1) if number not in names), None)
    if missing is not None:
        return missing
    if compact >= 0:
        _check_entries(log / f"{compact}{_COMPACT}", range(compact + 1))
    for number in sorted(number for number in names if number > compact):
        _check_entries(log / str(number), range(number, number + 1))
    return None


def _check_entries(file: StoragePath, entries: range) -> None:
    """Refuse a log file that lacks one of ``entries``: Spark writes an entry only for files that were read.

    Spark would take those files for new ones, and read them again.
    """
    head, *lines = file.read_bytes().splitlines() or [b""]
    with _read_of(file):
        if head != _FORMAT.encode():
            raise ValueError(f"{_FORMAT} was written in the first line")
        present = {_ENTRY.decode(line).entry for line in lines}
    if present != set(entries):
        lost = sorted(set(entries) - present)
        reason = f"the files of entry {lost[0]} are gone from it" if lost else "it has files of other entries"
        raise damaged_file(file, reason)


def file_log(log: StoragePath) -> dict[int, list[str]]:
    """Returns the files in each entry of the log of Spark's source of files, by number, in the order of their times."""
    lines: set[tuple[int, int, str]] = set()
    with checkpoint_errors(log):
        files = [log / f"{number}" for number in file_numbers(log)]
        files += [log / f"{number}.compact" for number in file_numbers(log, suffix=".compact")]
        for file in files:
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                return file_log(log)  # a query has put it together with others meanwhile
            for text in content.splitlines()[1:]:
                with _read_of(file):
                    line = _ENTRY.decode(text)
                lines.add((line.entry, line.timestamp, path_of_url(line.path)))
    files_by_entry: defaultdict[int, list[str]] = defaultdict(list)
    for entry, _, path in sorted(lines):
        files_by_entry[entry].append(path)
    return dict(files_by_entry)


def batch_that_reads(spark: StoragePath, file: StoragePath) -> int:
    """Returns the number of the batch that reads a file of the control folder; -1: none was planned.

    The control folder is the last source of the query.
    """
    offsets, first_batch = spark / "offsets", -1
    planned = sorted(file_numbers(offsets), reverse=True)
    if not planned:
        return -1
    with checkpoint_errors(offsets):
        source = len((offsets / str(planned[0])).read_bytes().splitlines()) - _HEAD - 1
        log = file_log(spark / "sources" / str(source))
        entries = [entry for entry, files in log.items() if any(name.endswith(f"/{file.name}") for name in files)]
        for batch in planned:
            if not entries or _entries_read(offsets, batch, source) <= entries[0]:
                break
            first_batch = batch
    return first_batch


def takes_several(spark: StoragePath, source: int) -> bool:
    """Returns whether a batch takes several entries of the log of a source of files, once the query goes on.

    Spark notes an entry before it plans the batch that takes it. A process that was killed between the two leaves one
    that the next batch takes with another one.
    """
    log = spark / "sources" / str(source)
    newest = max({*file_numbers(log), *file_numbers(log, suffix=_COMPACT)}, default=-1)
    planned, done = (_entries_read(spark / "offsets", last_number(spark / name), source) for name in _LOGS)
    return newest >= planned or planned - done > 1


def _entries_read(offsets: StoragePath, batch: int, source: int) -> int:
    """Returns how many entries of the log of a source were read by the end of a batch; below 0 there is none."""
    if batch < 0:
        return 0
    with checkpoint_errors(offsets):
        lines = (offsets / str(batch)).read_bytes().splitlines()
    try:
        return msgspec.json.decode(lines[_HEAD + source], type=LogOffset).read
    except (ValueError, IndexError):  # "-" says that nothing was read; a damaged file is refused by Spark itself
        return 0


def clear_leftovers(spark: StoragePath) -> None:
    """Remove unfinished files of a process that died. No other run may use the folder meanwhile.

    Spark refuses to start a query if it finds such a file. If no batch was planned yet, state and an unreadable
    identity of the query are removed as well. The logs of sources stay: Kafka's first offsets are those of the first
    start. Links are not followed, and only files with the names that Spark gives to such files are removed.
    """
    with checkpoint_errors(spark):
        for log in (spark / name for name in (*_LOGS, "state")):
            if log.is_symlink():
                raise damaged_file(log, "it is a link")
        for log in (spark / name for name in _LOGS):
            checksums = {f".{number}.crc" for number in file_numbers(log)}
            for file in log.glob(".*"):
                if file.name not in checksums and _is_leftover(file.name):
                    file.unlink(missing_ok=True)
        if any(file_numbers(spark / name) for name in _LOGS):
            return
        state = next((file for file in (spark / "state").rglob("*") if _STATE_FILE.fullmatch(file.name)), None)
    if state is not None:
        below = str(state).removeprefix(f"{spark}/")
        raise damaged_file(spark / "offsets", f"{_GONE}, and there is state in {below}")
    with checkpoint_errors(spark):
        clear(spark / "state")
        try:
            _IDENTITY.decode(_bytes_of(spark / "metadata") or b"")
        except (ValueError, RecursionError):
            for file in [*spark.glob("metadata"), *filter(lambda file: _is_leftover(file.name), spark.glob(".*"))]:
                file.unlink()


def _is_leftover(name: str) -> bool:
    return _UNFINISHED.fullmatch(name) is not None or _CHECKSUM.fullmatch(name) is not None


def _bytes_of(file: StoragePath) -> bytes | None:
    return file.read_bytes() if file.exists() else None


@contextmanager
def _read_of(file: StoragePath) -> Iterator[None]:
    """Turns an error of a JSON reader into one that names the file."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise damaged_file(file, f"{error}") from error

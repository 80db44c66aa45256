"""Turns an exception of Spark's, with its hundreds of lines, into a windrow error of a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from windrow.addresses.redaction import redact
from windrow.errors import CheckpointError, EngineError, SourceError, WindrowError
from windrow_runtime.operators.secrets import shown_in, without_secrets
from windrow_runtime.spark.faults.marked import RemoteError, find_failure, without_marks

__all__ = ["engine_failure", "secrets_hidden", "shows_secret", "spark_said", "unwritable"]

_CAUSE = re.compile(r"^(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)
_RAISED = re.compile(
    r"^((?!java|org|py4j|scala)(?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE
)
_BY_PYTHON = ("PythonException", "Py4JException", "Py4JJavaError")
_NAMES = re.compile(r"^(?:(?:Caused by: |: )?(?:[a-z]\w*\.)+[A-Z]\w*: )+")
_KNOWN = 80
_SHOWN = 300
_CAUSES_SHOWN = 8
_FULL = re.compile(r"No space left on device|File too large|Disk quota exceeded")
_REFUSED = re.compile(
    r"Permission denied|Read-only file system|Mkdirs failed|Not a directory|AccessControlException"
)


class _Kind(NamedTuple):
    """A kind of failure that is recognised by words in Spark's message."""

    words: re.Pattern[str]
    error: type[WindrowError]
    message: str
    hint: str


_KINDS = (
    _Kind(
        re.compile(r"ModuleNotFoundError: No module named '[^']+'"),
        EngineError,
        "a worker cannot import a module",
        "ship it with spark-submit --py-files, or an environment that has it with --archives",
    ),
    _Kind(
        re.compile(r'Cannot run program "[^"]+"'),
        EngineError,
        "Spark cannot start a Python worker",
        "PYSPARK_PYTHON says which one; with --archives, submit from the folder that holds the environment",
    ),
    _Kind(
        re.compile(r"PYTHON_VERSION_MISMATCH[^\n]*"),
        EngineError,
        "workers run another version of Python than the driver",
        "set PYSPARK_PYTHON to the Python of the workers, and PYSPARK_DRIVER_PYTHON to the same version",
    ),
    _Kind(
        re.compile(r"Python worker exited unexpectedly"),
        EngineError,
        "a Python worker died, and again each time that Spark tried",
        "look for the kernel's out-of-memory killer, give executors more memoryOverhead, and look at native code that "
        "functions call; local[N] tries once, local[N, 4] four times",
    ),
    _Kind(
        re.compile(r"java\.lang\.OutOfMemoryError[^\n]*"),
        EngineError,
        "Spark ran out of memory",
        "raise spark.driver.memory or spark.executor.memory, read less in a batch, or use more partitions",
    ),
    _Kind(
        re.compile(r"Relative path in absolute URI: [^\n]*"),
        SourceError,
        "Spark cannot look for a pattern in a folder where a name holds a colon",
        "rename that, or give the source a folder instead of a pattern",
    ),
    _Kind(
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY"),
        CheckpointError,
        "two runs use one checkpoint",
        "stop one of them; the other goes on from the checkpoint when it is started again",
    ),
    _Kind(
        re.compile(r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY[^\n]*"),
        CheckpointError,
        "the checkpoint has files of a query, and nothing says how far that query came",
        "restore the checkpoint folder as a whole from a copy, or begin a new one; no other program may write there",
    ),
    _Kind(
        re.compile(
            r"MALFORMED_LOG_FILE|Failed to read log file|STREAMING_CHECKPOINT_|STDS_FAILED|_STATE_STORE"
            r"|STREAMING_STATEFUL_OPERATOR_MISSING|RocksDBException|CheckpointFileChecksum"
            r"|sources in the checkpoint offsets|\tat \S+\.StreamMetadata\$\.read"
            r"|\tat \S+\.(OffsetSeqLog|CommitLog|CompactibleFileStreamLog)\.deserialize"
            r"|assertion failed\n\tat scala\.\S+\n\tat \S+\.FileStreamSource"
        ),
        CheckpointError,
        "Spark cannot read or write its part of the checkpoint",
        "restore the checkpoint folder as a whole from a copy, or begin a new one",
    ),
)


def engine_failure(error: BaseException, where: str | None, secrets: Sequence[str] = ()) -> WindrowError:
    """Makes the windrow error for an exception of Spark's. Raise it from its ``__cause__``.

    Args:
        error: What Spark raised.
        where: The pipeline and its checkpoint; None: the caller knows them.
        secrets: What neither the error nor its cause may show, the longest first.
    """
    if isinstance(error, WindrowError):
        return without_secrets(error, secrets).at(where)
    said = _said(error, secrets)
    failure = find_failure(error)
    if failure is None:
        failure = _recognised(said) or EngineError(
            "Spark stopped the pipeline",
            given=_reason_of(said),
            hint="the error's details have all that Spark said; with a checkpoint, a run does the batch again",
        )
        failure.__cause__ = _chain_of(said)
    failure.details = without_marks(said.text)
    return without_secrets(failure, secrets).at(where)


@contextmanager
def secrets_hidden(secrets: Sequence[str], where: str | None = None) -> Iterator[None]:
    """Replaces an exception that shows a secret by an error that does not; any other exception passes unchanged.

    Args:
        secrets: The secrets, the longest first.
        where: The pipeline; None: the caller knows it.

    Raises:
        WindrowError: In the place of an exception that showed a secret.
    """
    try:
        yield
    except Exception as error:
        if not shows_secret(error, secrets):
            raise
        failure = engine_failure(error, where, secrets)
        raise failure from failure.__cause__


def shows_secret(error: BaseException, secrets: Sequence[str]) -> bool:
    """Whether an error shows a secret where Python prints it, or in the stack of Spark's Java side."""
    return shown_in(error, secrets) or any(secret in _stack_of(error) for secret in secrets)


class _Said(NamedTuple):
    """What an exception of Spark's says, without secrets.

    They are taken out before anything is cut, which could leave half of one.

    Attributes:
        kind: The class of the exception.
        first: Its text.
        text: That with the stack of Spark's Java side, which has a chain of causes of its own.
    """

    kind: str
    first: str
    text: str


def _said(error: BaseException, secrets: Sequence[str] = ()) -> _Said:
    first = redact(str(error), secrets)
    return _Said(type(error).__name__, first, f"{first}\n{redact(_stack_of(error), secrets)}")


def _stack_of(error: BaseException) -> str:
    stack: str = getattr(error, "_stackTrace", None) or ""
    return stack


def _recognised(said: _Said) -> WindrowError | None:
    """The error for a kind of failure that is recognised; else None."""
    if _FULL.search(said.text):
        return EngineError(
            "a disk is full, or a file may not grow",
            given=_reason_of(said),
            expected="space for the checkpoint, the files of sinks, and Spark's scratch files",
            hint="free some and run again: the run goes on from its checkpoint; spark.local.dir says where scratch is",
        )
    for kind in _KINDS:
        if kind.words.search(said.text):
            return kind.error(kind.message, given=_line_with(said, kind.words), hint=kind.hint)
    return None


def unwritable(error: BaseException, secrets: Sequence[str] = ()) -> str | None:
    """The reason why files cannot be written, if the exception says so; else None."""
    if isinstance(error, OSError):
        return redact(str(error), secrets)
    if find_failure(error) is not None:
        return None
    reason = _reason_of(_said(error, secrets))
    return reason if _FULL.search(reason) or _REFUSED.search(reason) else None


def spark_said(error: BaseException, secrets: Sequence[str] = ()) -> RemoteError:
    """The chain of causes that Spark gives, as the ``__cause__`` of an error."""
    return _chain_of(_said(error, secrets))


def _reason_of(said: _Said) -> str:
    """The innermost cause, in one line."""
    causes = _causes(said)
    text = causes[-1] if causes else f"{said.kind}: {said.first}".partition("\n")[0]
    raised = _RAISED.findall(said.text) if text.startswith(_BY_PYTHON) else []
    return _cut(raised[-1] if raised else text)


def _line_with(said: _Said, words: re.Pattern[str]) -> str:
    """The line that holds the words, which often names a file, and the innermost cause."""
    innermost = _reason_of(said)
    lines = [line for line in said.text.splitlines() if words.search(line) and not line.startswith("\t")]
    if not lines:
        return innermost
    line = _cut(_NAMES.sub("", lines[0].rpartition("exception: ")[2].strip()))
    if line[:_KNOWN] in innermost:
        return innermost
    return line if innermost.partition(": ")[2] in line else f"{line} ({innermost})"


def _causes(said: _Said) -> list[str]:
    found = (
        f"{name.rpartition('.')[2]}: {text}" if text else name for name, text in _CAUSE.findall(said.text)
    )
    return list(dict.fromkeys(found))


def _chain_of(said: _Said) -> RemoteError:
    causes = _causes(said) or [said.first]
    lines = [_cut(cause) for cause in causes[-_CAUSES_SHOWN:]]
    return RemoteError("\n  caused by ".join(lines), "from Spark")


def _cut(text: str) -> str:
    short = text.partition(" SQLSTATE")[0]
    return short if len(short) <= _SHOWN else f"{short[:_SHOWN]}..."

"""What made Spark give up, told in a few lines instead of its hundreds."""

from __future__ import annotations

import re
from typing import NamedTuple

from windrow.errors import CheckpointError, EngineError, WindrowError
from windrow_runtime.spark.failures import RemoteError, find_failure

__all__ = ["engine_failure", "spark_said", "unwritable"]

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
    """A way to fail that is known by the words of Spark."""

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
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY"),
        CheckpointError,
        "two runs use one checkpoint",
        "stop one of them; the other goes on from the checkpoint when it is started again",
    ),
    _Kind(
        re.compile(
            r"MALFORMED_LOG_FILE|Failed to read log file|STREAMING_CHECKPOINT_|STDS_FAILED|_STATE_STORE"
            r"|STREAMING_STATEFUL_OPERATOR_MISSING|RocksDBException|CheckpointFileChecksum"
            r"|\tat \S+\.StreamMetadata\$\.read"
            r"|assertion failed\n\tat scala\.\S+\n\tat \S+\.FileStreamSource"
        ),
        CheckpointError,
        "Spark cannot read or write its part of the checkpoint",
        "restore the checkpoint folder as a whole from a copy, or begin a new one",
    ),
)


def engine_failure(error: BaseException, where: str) -> WindrowError:
    """The error to raise for one that came from Spark, from its ``__cause__``.

    Args:
        error: What Spark raised.
        where: The pipeline and its checkpoint.
    """
    failure = error if isinstance(error, WindrowError) else _recognised(error)
    if failure is None:
        failure = EngineError(
            "Spark stopped the pipeline",
            given=_reason_of(error),
            hint="Spark's log has the whole error; with a checkpoint, a run goes on with the batch that failed",
        )
        failure.__cause__ = spark_said(error)
    return failure.at(where)


def _recognised(error: BaseException) -> WindrowError | None:
    """The error that a worker marked, or of a kind that is known; else None."""
    marked = find_failure(error)
    if marked is not None:
        return marked
    text = _text(error)
    if _FULL.search(text):
        failure: WindrowError = EngineError(
            "a disk is full, or a file may not grow",
            given=_reason_of(error),
            expected="space for the checkpoint, the files of sinks, and Spark's scratch files",
            hint="free some and run again: the run goes on from its checkpoint; spark.local.dir says where scratch is",
        )
        failure.__cause__ = spark_said(error)
        return failure
    for kind in _KINDS:
        found = kind.words.search(text)
        if found is not None:
            failure = kind.error(kind.message, given=_told(error, kind.words), hint=kind.hint)
            failure.__cause__ = spark_said(error)
            return failure
    return None


def unwritable(error: BaseException) -> str | None:
    """Why files cannot be written, if that is the error; else None."""
    if isinstance(error, OSError):
        return f"{error}"
    if find_failure(error) is not None:
        return None
    reason = _reason_of(error)
    return reason if _FULL.search(reason) or _REFUSED.search(reason) else None


def _reason_of(error: BaseException) -> str:
    """The innermost reason, in a line."""
    causes = _causes(error)
    text = causes[-1] if causes else f"{type(error).__name__}: {error}".partition("\n")[0]
    raised = _RAISED.findall(_text(error)) if text.startswith(_BY_PYTHON) else []
    return _cut(raised[-1] if raised else text)


def _told(error: BaseException, words: re.Pattern[str]) -> str:
    """The line with the words, which often names a file, and what caused it."""
    innermost = _reason_of(error)
    lines = [line for line in _text(error).splitlines() if words.search(line) and not line.startswith("\t")]
    if not lines:
        return innermost
    line = _cut(_NAMES.sub("", lines[0].rpartition("exception: ")[2].strip()))
    if line[:_KNOWN] in innermost:
        return innermost
    return line if innermost.partition(": ")[2] in line else f"{line} ({innermost})"


def _causes(error: BaseException) -> list[str]:
    found = (
        f"{name.rpartition('.')[2]}: {text}" if text else name for name, text in _CAUSE.findall(_text(error))
    )
    return list(dict.fromkeys(found))


def spark_said(error: BaseException) -> RemoteError:
    """The chain of reasons, as the cause of an error."""
    causes = _causes(error) or [str(error)]
    lines = [_cut(cause) for cause in causes[-_CAUSES_SHOWN:]]
    return RemoteError("\n  caused by ".join(lines), "from Spark")


def _text(error: BaseException) -> str:
    # What Spark's Java side raises has its own chain of causes beside its text.
    return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"


def _cut(text: str) -> str:
    told = text.partition(" SQLSTATE")[0]
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."

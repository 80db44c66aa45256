"""Turns an exception of Spark's, with its hundreds of lines, into a windrow error of a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from windrow.addresses.redaction import redact
from windrow.errors import CheckpointError, EngineError, SourceError, WindrowError
from windrow_runtime.operators.outgoing_errors import shown_in, without_secrets
from windrow_runtime.spark.faults.marked import RemoteError, find_failure, without_marks

_CAUSE = re.compile(r"^(?:Caused by: |: )?((?:[a-z]\w*\.)+[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)
_RAISED = re.compile(r"^((?!java|org|py4j|scala)(?:\w+\.)*\w+(?:Error|Exception|Exit|Interrupt)\b.*)$", re.MULTILINE)
_BY_PYTHON = ("PythonException", "Py4JException", "Py4JJavaError")
_NAMES = re.compile(r"^(?:(?:Caused by: |: )?(?:[a-z]\w*\.)+[A-Z]\w*: )+")
_KNOWN = 80
_SHOWN = 300
_CAUSES_SHOWN = 8
_FULL = "No space left on device|File too large|Disk quota exceeded"
_UNWRITABLE = re.compile(
    f"{_FULL}|Permission denied|Read-only file system|Mkdirs failed|Not a directory|AccessControlException"
)


class _Failure(NamedTuple):
    """A failure that is recognised by words in Spark's message, and the error for it."""

    words: str
    error: type[WindrowError]
    message: str
    hint: str
    expected: str | None = None


_FAILURES = (
    _Failure(
        _FULL,
        EngineError,
        "a disk is full, or a file may not grow",
        "free some and run again: the run goes on from its checkpoint; spark.local.dir says where scratch is",
        expected="space for the checkpoint, the files of sinks, and Spark's scratch files",
    ),
    _Failure(
        r"ModuleNotFoundError: No module named '[^']+'",
        EngineError,
        "a worker cannot import a module",
        "ship it with spark-submit --py-files, or an environment that has it with --archives",
    ),
    _Failure(
        r'Cannot run program "[^"]+"',
        EngineError,
        "Spark cannot start a Python worker",
        "PYSPARK_PYTHON says which one; with --archives, submit from the folder that holds the environment",
    ),
    _Failure(
        r"PYTHON_VERSION_MISMATCH[^\n]*",
        EngineError,
        "workers run another version of Python than the driver",
        "set PYSPARK_PYTHON to the Python of the workers, and PYSPARK_DRIVER_PYTHON to the same version",
    ),
    _Failure(
        r"Python worker exited unexpectedly",
        EngineError,
        "a Python worker died, and again each time that Spark tried",
        "look for the kernel's out-of-memory killer, give executors more memoryOverhead, and look at native code that "
        "functions call; local[N] tries once, local[N, 4] four times",
    ),
    _Failure(
        r"java\.lang\.OutOfMemoryError[^\n]*",
        EngineError,
        "Spark ran out of memory",
        "raise spark.driver.memory or spark.executor.memory, read less in a batch, or use more partitions",
    ),
    _Failure(
        r"Relative path in absolute URI: [^\n]*",
        SourceError,
        "Spark cannot look for a pattern in a folder where a name holds a colon",
        "rename that, or give the source a folder instead of a pattern",
    ),
    _Failure(
        r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY",
        CheckpointError,
        "two runs use one checkpoint",
        "stop one of them; the other goes on from the checkpoint when it is started again",
    ),
    _Failure(
        r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY[^\n]*",
        CheckpointError,
        "the checkpoint has files of a query, and nothing says how far that query came",
        "restore the checkpoint folder as a whole from a copy, or begin a new one; no other program may write there",
    ),
    _Failure(
        (
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
        error: The exception that Spark raised.
        where: The pipeline and its checkpoint; None: the caller knows them.
        secrets: Texts that neither the error nor its cause may show, the longest first.
    """
    if isinstance(error, WindrowError):
        return without_secrets(error, secrets).at(where)
    text = _SparkText(error, secrets)
    failure = find_failure(error)
    if failure is None:
        failure = _recognised(text) or EngineError(
            "Spark stopped the pipeline",
            given=text.reason(),
            hint="the error's details have all that Spark said; with a checkpoint, a run does the batch again",
        )
        failure.__cause__ = text.chain()
    failure.details = without_marks(text.whole)
    return without_secrets(failure, secrets).at(where)


@contextmanager
def engine_errors(where: str | None, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Raises the error of :func:`engine_failure` in the place of each exception."""
    try:
        yield
    except Exception as error:
        failure = engine_failure(error, where, secrets)
        raise failure from failure.__cause__


@contextmanager
def secrets_hidden(secrets: Sequence[str], where: str | None = None) -> Iterator[None]:
    """Raises the error of :func:`engine_failure` in the place of an exception that shows a secret."""
    try:
        yield
    except Exception as error:
        if not shows_secret(error, secrets):
            raise
        failure = engine_failure(error, where, secrets)
        raise failure from failure.__cause__


def shows_secret(error: BaseException, secrets: Sequence[str]) -> bool:
    """Returns whether an error shows a secret where Python prints it, or in the stack of Spark's Java side."""
    return shown_in(error, secrets) or any(secret in _stack_of(error) for secret in secrets)


def unwritable(error: BaseException, secrets: Sequence[str] = ()) -> str | None:
    """Returns the reason why files cannot be written, if that is the cause of the exception; else None."""
    if isinstance(error, OSError):
        return redact(str(error), secrets)
    if find_failure(error) is not None:
        return None
    reason = _SparkText(error, secrets).reason()
    return reason if _UNWRITABLE.search(reason) else None


def causes_of(error: BaseException, secrets: Sequence[str] = ()) -> RemoteError:
    """Returns the chain of causes in Spark's exception, as the ``__cause__`` of an error."""
    return _SparkText(error, secrets).chain()


def _recognised(text: _SparkText) -> WindrowError | None:
    for words, error, message, hint, expected in _FAILURES:
        if re.search(words, text.whole):
            return error(message, given=text.line_with(words), expected=expected, hint=hint)
    return None


def _stack_of(error: BaseException) -> str:
    stack: str = getattr(error, "_stackTrace", None) or ""
    return stack


class _SparkText:
    """The text of an exception of Spark's, without secrets.

    They are removed before the text is shortened, which could leave half of one.

    Attributes:
        whole: The text with the stack of Spark's Java side, which has a chain of causes of its own.
    """

    def __init__(self, error: BaseException, secrets: Sequence[str]) -> None:
        self._kind = type(error).__name__
        self._first = redact(str(error), secrets)
        self.whole = f"{self._first}\n{redact(_stack_of(error), secrets)}"

    def _causes(self) -> list[str]:
        found = _CAUSE.findall(self.whole)
        names = (name.rpartition(".")[2] + (f": {text}" if text else "") for name, text in found)
        return list(dict.fromkeys(names))

    def chain(self) -> RemoteError:
        """Returns the causes, as the ``__cause__`` of an error."""
        causes = self._causes() or [self._first]
        return RemoteError("\n  caused by ".join(map(_cut, causes[-_CAUSES_SHOWN:])), "from Spark")

    def reason(self) -> str:
        """Returns the innermost cause, in one line."""
        causes = self._causes()
        text = causes[-1] if causes else f"{self._kind}: {self._first}".partition("\n")[0]
        raised = _RAISED.findall(self.whole) if text.startswith(_BY_PYTHON) else []
        return _cut(raised[-1] if raised else text)

    def line_with(self, words: str) -> str:
        """Returns the line that holds the words, which often names a file, and the innermost cause."""
        reason = self.reason()
        found = (line for line in self.whole.splitlines() if re.search(words, line))
        line = next((line for line in found if not line.startswith("\t")), None)
        if line is None:
            return reason
        line = _cut(_NAMES.sub("", line.rpartition("exception: ")[2].strip()))
        if line[:_KNOWN] in reason:
            return reason
        return line if reason.partition(": ")[2] in line else f"{line} ({reason})"


def _cut(text: str) -> str:
    short = text.partition(" SQLSTATE")[0]
    return short if len(short) <= _SHOWN else f"{short[:_SHOWN]}..."

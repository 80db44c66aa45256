"""Turns failures of Spark and of its workers into windrow's errors.

Spark wraps an error of a worker into the text of several exceptions, among hundreds of other lines. So a worker encodes
windrow's errors in that text such that the driver finds them. All other exceptions of Spark become an error of a few
lines.
"""

from __future__ import annotations

import base64
import json
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from windrow import errors
from windrow.addresses.redaction import redact, redact_address
from windrow.errors import CheckpointError, EngineError, SourceError, WindrowError
from windrow_runtime.operators.outcome import is_ours, shown_in, without_secrets

_MARK = re.compile(r"windrow-failure:([A-Za-z0-9_-]+=*);")
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+)\. (.+)")
_FRAMES_SHOWN = 5
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


class MarkedError(Exception):
    """Wraps one of windrow's errors in a worker; its text is readable, and ends in an encoded copy for the driver."""

    def __init__(self, error: WindrowError) -> None:
        fields = {
            **{name: each if isinstance(each, str) else repr(each) for name, each in error.given_part.items()},
            "expected": error.expected,
            "where": None if error.where is None else str(error.where),
            "hint": error.hint,
        }
        parts = (type(error).__name__, error.message, fields, _user_traceback(error))
        encoded = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()
        super().__init__(f"{error}\nwindrow-failure:{encoded};")


class RemoteError(Exception):
    """The cause of an error from another process: the user's lines in which a worker failed, or Spark's messages."""

    def __init__(self, text: str, place: str = "in a Spark worker") -> None:
        super().__init__(f"{place}\n{text}")


@contextmanager
def failures_marked() -> Iterator[None]:
    """Raises windrow's errors as :class:`MarkedError`. All other exceptions pass unchanged."""
    try:
        yield
    except WindrowError as error:
        raise MarkedError(error) from error


def find_failure(error: BaseException) -> WindrowError | None:
    """Decodes the error of a worker in Spark's exception, or returns one for a file that Spark cannot read."""
    mark = _MARK.search(str(error))
    if mark is not None:
        name, message, fields, user_traceback = json.loads(base64.urlsafe_b64decode(mark[1]))
        failure: WindrowError = getattr(errors, name, WindrowError)(message, **fields)
        failure.__cause__ = RemoteError(user_traceback) if user_traceback else None
        return failure
    unreadable = _UNREADABLE.search(str(error))
    if unreadable is None:
        return None
    return SourceError(
        "Spark cannot read a file of a source",
        given=redact_address(unreadable[1]),
        hint=f"Spark says: {redact(unreadable[2].partition(' SQLSTATE')[0])}",
    )


def _user_traceback(error: WindrowError) -> str | None:
    """Returns the innermost lines of the user's code in the traceback of the error's cause."""
    cause = error.__cause__
    if cause is None:
        return None
    # Frames of the engine do not help the user.
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not is_ours(frame.filename)]
    lines = traceback.format_list(frames[-_FRAMES_SHOWN:])
    return "".join([*lines, *traceback.format_exception_only(cause)]).rstrip()


class _Failure(NamedTuple):
    """A failure that is recognised by a pattern in Spark's message, and the error for it."""

    words: str
    message: str
    hint: str
    error: type[WindrowError] = EngineError
    expected: str | None = None


_FAILURES = (
    _Failure(
        _FULL,
        "a disk is full, or a file may not grow",
        "free some and run again: the run goes on from its checkpoint; spark.local.dir says where scratch is",
        expected="space for the checkpoint, the files of sinks, and Spark's scratch files",
    ),
    _Failure(
        r"ModuleNotFoundError: No module named '[^']+'",
        "a worker cannot import a module",
        "ship it with spark-submit --py-files, or an environment that has it with --archives; on one machine, "
        "PYSPARK_PYTHON names the Python that has it",
    ),
    _Failure(
        r'Cannot run program "[^"]+"',
        "Spark cannot start a Python worker",
        "PYSPARK_PYTHON says which one; with --archives, submit from the folder that holds the environment",
    ),
    _Failure(
        r"PYTHON_VERSION_MISMATCH[^\n]*",
        "workers run another version of Python than the driver",
        "set PYSPARK_PYTHON to the Python of the workers, and PYSPARK_DRIVER_PYTHON to the same version",
    ),
    _Failure(
        r"Python worker exited unexpectedly",
        "a Python worker died, and again each time that Spark tried",
        "look for the kernel's out-of-memory killer, give executors more memoryOverhead, and look at native code that "
        "functions call; local[N] tries once, local[N, 4] four times",
    ),
    _Failure(
        r"is bigger than spark\.driver\.maxResultSize",
        "a batch has more for the driver than Spark lets it take: the elements of sinks that the driver writes",
        "start the session with a larger spark.driver.maxResultSize (0: any size), and as much spark.driver.memory; or "
        "read less in a batch, or take a sink that workers write, such as files or a CustomSink with on_workers",
        expected="no more than spark.driver.maxResultSize",
    ),
    _Failure(
        r"java\.lang\.OutOfMemoryError[^\n]*",
        "Spark ran out of memory",
        "raise spark.driver.memory or spark.executor.memory, read less in a batch, or use more partitions",
    ),
    _Failure(
        r"Relative path in absolute URI: [^\n]*",
        "Spark cannot look for a pattern in a folder where a name holds a colon",
        "rename that, or give the source a folder instead of a pattern",
        SourceError,
    ),
    _Failure(
        r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY",
        "two runs use one checkpoint",
        "stop one of them; the other goes on from the checkpoint when it is started again",
        CheckpointError,
    ),
    _Failure(
        r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY[^\n]*",
        "the checkpoint has files of a query, and nothing says how far that query came",
        "restore the checkpoint folder as a whole from a copy, or begin a new one; no other program may write there",
        CheckpointError,
    ),
    _Failure(
        r"S3Exception: [^\n]*Status Code: 100\b",
        "Hadoop's client of S3 cannot upload the files of state",
        "start the session with the setting spark.hadoop.fs.s3a.optimized.copy.from.local.enabled=false; windrow sets "
        "it only where nobody has opened the bucket before",
        CheckpointError,
    ),
    _Failure(
        (
            r"MALFORMED_LOG_FILE|Failed to read log file|STREAMING_CHECKPOINT_|STDS_FAILED|_STATE_STORE"
            r"|STREAMING_STATEFUL_OPERATOR_MISSING|RocksDBException|CheckpointFileChecksum"
            r"|sources in the checkpoint offsets|\tat \S+\.StreamMetadata\$\.read"
            r"|\tat \S+\.(OffsetSeqLog|CommitLog|CompactibleFileStreamLog)\.deserialize"
            r"|assertion failed\n\tat scala\.\S+\n\tat \S+\.FileStreamSource"
        ),
        "Spark cannot read or write its part of the checkpoint",
        "restore the checkpoint folder as a whole from a copy, or begin a new one",
        CheckpointError,
    ),
)


def engine_failure(error: BaseException, where: str | None, secrets: Sequence[str] = ()) -> WindrowError:
    """Returns the windrow error for an exception of Spark, which is to be raised from its ``__cause__``.

    Neither the error nor its cause shows one of the secrets, which are sorted with the longest first. ``where`` names
    the pipeline and its checkpoint.
    """
    if isinstance(error, WindrowError):
        return without_secrets(error, secrets).at(where)
    text = _SparkText(error, secrets)
    failure = find_failure(error)
    if failure is None:
        failure = _recognised(text) or EngineError(
            "Spark stopped the pipeline",
            given=text.reason,
            hint="the error's details have all that Spark said; with a checkpoint, a run does the batch again",
        )
        failure.__cause__ = text.chain()
    failure.details = _MARK.sub("", text.whole)
    return without_secrets(failure, secrets).at(where)


@contextmanager
def engine_errors(where: str | None, secrets: Sequence[str] = (), *, all_errors: bool = True) -> Iterator[None]:
    """Replaces each exception, or only those that show a secret, by the error of :func:`engine_failure`."""
    try:
        yield
    except Exception as error:
        if not (all_errors or shows_secret(error, secrets)):
            raise
        failure = engine_failure(error, where, secrets)
        raise failure from failure.__cause__


def secrets_hidden(secrets: Sequence[str], where: str | None = None) -> AbstractContextManager[None]:
    """Replaces an exception that shows a secret by the error of :func:`engine_failure`."""
    return engine_errors(where, secrets, all_errors=False)


def shows_secret(error: BaseException, secrets: Sequence[str]) -> bool:
    """Returns whether an error shows a secret when Python prints it, or in its Java stack trace."""
    return shown_in(error, secrets) or any(secret in _stack_of(error) for secret in secrets)


def unwritable(error: BaseException, secrets: Sequence[str] = ()) -> str | None:
    """Returns why files cannot be written, if that is the cause of the exception; else None."""
    if isinstance(error, OSError):
        return redact(str(error), secrets)
    if find_failure(error) is not None:
        return None
    reason = _SparkText(error, secrets).reason
    return reason if _UNWRITABLE.search(reason) else None


def causes_of(error: BaseException, secrets: Sequence[str] = ()) -> RemoteError:
    """Returns the chain of causes in Spark's exception, as the ``__cause__`` of an error."""
    return _SparkText(error, secrets).chain()


def _recognised(text: _SparkText) -> WindrowError | None:
    for words, message, hint, error, expected in _FAILURES:
        if re.search(words, text.whole):
            return error(message, given=text.line_with(words), expected=expected, hint=hint)
    return None


def _stack_of(error: BaseException) -> str:
    stack: str = getattr(error, "_stackTrace", None) or ""
    return stack


class _SparkText:
    """The text of an exception of Spark, without secrets.

    They are removed before the text is shortened, which could leave half of one. The whole text includes the Java
    stack trace, which has a separate chain of causes; the reason is the innermost cause, in one line.
    """

    def __init__(self, error: BaseException, secrets: Sequence[str]) -> None:
        first = redact(str(error), secrets)
        self.whole = f"{first}\n{redact(_stack_of(error), secrets)}"
        matches = _CAUSE.findall(self.whole)
        causes = list(dict.fromkeys(name.rpartition(".")[2] + (f": {text}" if text else "") for name, text in matches))
        self._causes = causes or [first]
        innermost = causes[-1] if causes else f"{type(error).__name__}: {first}".partition("\n")[0]
        raised = _RAISED.findall(self.whole) if innermost.startswith(_BY_PYTHON) else []
        self.reason = _cut(raised[-1] if raised else innermost)

    def chain(self) -> RemoteError:
        """Returns the causes, as the ``__cause__`` of an error."""
        return RemoteError("\n  caused by ".join(map(_cut, self._causes[-_CAUSES_SHOWN:])), "from Spark")

    def line_with(self, words: str) -> str:
        """Returns the line that matches ``words``, which often names a file, and the innermost cause."""
        lines = (line for line in self.whole.splitlines() if re.search(words, line))
        line = next((line for line in lines if not line.startswith("\t")), None)
        if line is None:
            return self.reason
        line = _cut(_NAMES.sub("", line.rpartition("exception: ")[2].strip()))
        if line[:_KNOWN] in self.reason:
            return self.reason
        return line if self.reason.partition(": ")[2] in line else f"{line} ({self.reason})"


def _cut(text: str) -> str:
    short = text.partition(" SQLSTATE")[0]
    return short if len(short) <= _SHOWN else f"{short[:_SHOWN]}..."

"""Defines the base classes of outputs, which an engine opens, calls with each batch and its number, and closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NamedTuple

from windrow.errors import InvalidArgumentError, SinkError, WindrowError
from windrow.plan import Step
from windrow.sinks import Sink
from windrow_runtime.codecs.malformed import shorten
from windrow_runtime.codecs.record_type import RecordField, record_type
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.operators.errors import field_errors

# Any in this module: sinks of elements of every type.


class Identity(NamedTuple):
    """Identifies the query and the sink that batches belong to; with its number it identifies a batch.

    The query stays the same when a run goes on from a checkpoint, and differs between checkpoints.
    """

    query: str
    sink: str


def written_type(step: Step) -> RecordType:
    """Returns the columns of the elements of a sink; the error for a type without a column form names the step."""
    with field_errors(step.where):
        return record_type(step.node.element_type)


class Output(ABC):
    """Writes the elements of one sink, batch by batch."""

    def open(self) -> None:  # noqa: B027  nothing to do by default
        """Connect to the target, and create or check it; a ``SinkError`` if it is not reachable or does not fit."""

    def check(self, batch: int, *, again: bool) -> None:  # noqa: B027  most targets have no numbers
        """Refuse the batch with which a run goes on from a checkpoint if :func:`check_newest` refuses it."""

    @property
    def takes_arrow(self) -> bool:
        """Whether the target takes Arrow data, by :meth:`write_portions`."""
        return False

    def write_portions(self, batch: int, portions: Iterable[Any]) -> None:
        """Writes portions of a batch, each a list of elements or an Arrow batch, if the target takes Arrow data."""
        raise NotImplementedError(f"{type(self).__name__} takes elements")

    @abstractmethod
    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write the elements of a batch, at least one.

        Transactional outputs write a batch completely or not at all, and once for each number. Numbers rise: a batch
        below the newest one of the target is refused. Raises a ``SinkError`` if the batch cannot be written, an
        ``InvalidArgumentError`` for an element of another type.
        """

    def close(self) -> None:  # noqa: B027  nothing to do by default
        """Close what :meth:`open` opened, at the end of the run."""


def check_newest(newest: int | None, batch: int, *, again: bool, target: str, where: str) -> None:
    """Refuse a batch that is not after ``newest``, the number of the query's last batch that its target has noted.

    The target may have a batch that runs ``again``, which the checkpoint had begun before: Spark gives it the same
    elements. Under the same number a checkpoint that was restored from an older copy has other ones.
    """
    if newest is not None and newest >= batch + again:
        raise SinkError(
            "the checkpoint is older than what a sink of its query has written",
            given=f"batch {batch} for {target}, which has batch {newest}",
            expected="a checkpoint that has all batches of its query",
            where=where,
            hint="a checkpoint that was restored from an older copy lacks the newest ones: restore all of its newest "
            "copy, or begin with a new checkpoint and another target",
        )


class TableOutput(Output):
    """Writes the batches of one sink to a table, each in a transaction that notes its number."""

    hint: ClassVar[str]
    """The hint of errors that are raised before the first batch."""

    def __init__(self, step: Step, sink: Sink[Any]) -> None:
        self._where = step.where
        self._shown = sink.describe()
        self._record_type = written_type(step)

    def refuse_lengths(self, target: str) -> None:
        """Refuses fields of types that tables of Arrow's libraries lack: lengths of time, and a plain None."""
        for field in self._record_type.columns:
            if field.type.contains(Kind.TIMEDELTA, Kind.NONE):
                raise InvalidArgumentError(
                    f"{target} has no type for this field",
                    given=f"{field.name}: {field.type}",
                    expected="a field without a timedelta or a plain None",
                    where=f"{self._where}, {self._record_type.name}.{field.name}",
                    hint="write a length of time as a number of milliseconds",
                )

    @abstractmethod
    def clean(self, text: str) -> str:
        """Removes secrets from an error text of the library."""

    @contextmanager
    def failures(self, message: str, batch: int | None = None, count: int = 0) -> Iterator[None]:
        """Turns errors of the library into a ``SinkError`` without secrets, which names the batch if there is one."""
        try:
            yield
        except WindrowError:
            raise
        except Exception as error:  # besides their own errors the libraries and drivers raise plain ones
            if batch is None and isinstance(error, ModuleNotFoundError):
                raise  # the registry names the extra that is missing
            text = " ".join(self.clean(str(getattr(error, "orig", None) or error)).split())
            failed = f"{message}: {shorten(text) or type(error).__name__}"
            # The traceback would show the cause, with its secrets.
            cause = None if self._has_secrets(error) else error
            shown, hint = self._shown, self.hint
            if batch is not None:
                shown = f"batch {batch} of {count} elements for {shown}"
                # The answer to a commit may have been lost, so nobody knows which of the two it is.
                hint = (
                    "the table has all or nothing of the batch; a run from the checkpoint writes it unless it is there"
                )
            raise SinkError(failed, given=shown, where=self._where, hint=hint) from cause

    def _has_secrets(self, error: BaseException) -> bool:
        """Returns whether a traceback of the error would show secrets."""
        link: BaseException | None = error
        while link is not None:
            if any(self.clean(text) != text for text in (str(link), repr(link))):
                return True
            link = link.__cause__ or link.__context__
        return False

    def refuse(self, table: str, faults: Sequence[str], *, hint: str, expected: str | None = None) -> None:
        """Raises a ``SinkError`` with a line for each fault of a table, if there are any."""
        if faults:
            raise SinkError(
                f"{table} does not fit {self._record_type.name}\n" + "\n".join(f"  - {fault}" for fault in faults),
                given=self._shown,
                expected=expected,
                where=self._where,
                hint=hint,
            )

    def fields_named(self, names: Sequence[str], what: str) -> list[RecordField]:
        """Returns the fields with these names; ``what`` says in errors where the names come from."""
        by_name = {field.name: field for field in self._record_type.columns}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise InvalidArgumentError(
                f"{what} names a field that {self._record_type.name} does not have",
                given=", ".join(unknown),
                expected=f"fields of {self._record_type.name}: {', '.join(by_name)}",
                where=self._where,
            )
        return [by_name[name] for name in names]


_KEY_KINDS: Final = frozenset(
    [Kind.BOOL, Kind.INT, Kind.STR, Kind.BYTES, Kind.UUID, Kind.ENUM, Kind.DATETIME, Kind.DATE, Kind.TIMEDELTA]
)


def check_key(key: Sequence[RecordField], record_type: RecordType, where: str) -> None:
    """Refuse a key with a field that is Optional, nested, or not compared exactly."""
    for field in key:
        if field.column_type.nullable or field.type.kind not in _KEY_KINDS:
            raise InvalidArgumentError(
                "a field of this type cannot be a key of a table",
                given=f"{field.name}: {field.column_type}",
                expected="bool, int, str, bytes, UUID, Enum, datetime, date or timedelta, not Optional",
                where=f"{where}, {record_type.name}.{field.name}",
            )

"""Defines errors and records by which codecs report values that do not fit their types, and damaged state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow import sources
from windrow.errors import CheckpointError, InvalidArgumentError, MalformedRecordError, SourceError

_SHOWN = 200
_KEPT = 4096
_RETURNS_HINT = "return what the type says, or state the type with .returns(Type)"
_HINT = 'correct the data, or give the source on_malformed="drop" or an OutputTag'


def shorten(text: str) -> str:
    """A text, cut to a length that fits a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def raw_text(text: str) -> str:
    """Cuts a text that did not fit its type, so that many long ones take bounded memory."""
    return text if len(text) <= _KEPT else text[:_KEPT]


def short_repr(value: object) -> str:
    """``repr``, cut to fit a message, for values whose ``repr`` may itself raise."""
    try:
        return shorten(repr(value[:_KEPT] if isinstance(value, str) else value))
    except Exception:  # a user's __repr__ may raise anything, and it must not hide the fault
        return f"<{type(value).__name__}>"


def shown_error(error: BaseException) -> str:
    """The type of an error of the user's code and its text, which may itself raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a user's __str__ may raise anything, and it must not hide the fault
        return type(error).__name__


class UnfitError(Exception):
    """A value at a path such as ``Reading.tags[]`` does not fit; the codec's entry point reports the record."""

    def __init__(self, path: str, reason: str, expected: str | None = None) -> None:
        super().__init__(path, reason, expected)
        self.path = path
        self.reason = reason
        self.expected = expected  # for errors of encoders alone


@dataclass(frozen=True, slots=True)
class MalformedValue:
    """A record that a source read and that does not fit its record type."""

    raw: str  # the line of a text file, or the row as JSON
    reason: str
    field: str | None  # the path of the field at fault; None: the record has no fields to name
    row: int | None = None  # in its batch, from zero; None for records read one by one

    def error(self) -> MalformedRecordError:
        """The error to raise where malformed records are not to be dropped or routed."""
        return MalformedRecordError(
            f"malformed record: {self.reason}", given=shorten(self.raw), where=self.field, hint=_HINT
        )


@dataclass(frozen=True, slots=True)
class UnmatchedHeader:
    """A header of a CSV file that lacks fields with defaults and has columns that no field takes."""

    reason: str


def as_malformed(record: MalformedValue, origin: str) -> sources.MalformedRecord:
    """Makes the record that users see of one that does not fit; the origin says where it was read."""
    reason = record.reason if record.field is None else f"{record.field}: {record.reason}"
    return sources.MalformedRecord(shorten(record.raw), reason, origin)


def malformed_error(record: sources.MalformedRecord) -> MalformedRecordError:
    """The error for a record that a source may neither drop nor route."""
    return MalformedRecordError(f"malformed record: {record.reason}", given=record.raw, hint=_HINT)


def columns_error(name: str, faults: Sequence[str], *, given: str, expected: str, hint: str) -> SourceError:
    """The error for columns that do not fit a record type, with a line for each fault."""
    listed = "\n".join(f"  - {fault}" for fault in faults)
    return SourceError(f"the columns do not fit {name}\n{listed}", given=given, expected=expected, hint=hint)


def misfit(value: object, error: UnfitError, type_name: str, hint: str = _RETURNS_HINT) -> InvalidArgumentError:
    """Makes the error for an element that holds a value of another type than its own, which has the given name."""
    return InvalidArgumentError(
        f"a value does not fit its type: {error.reason}",
        given=short_repr(value),
        expected=error.expected or type_name,
        where=error.path,
        hint=hint,
    )


def damaged_state(
    given: str, *, message: str = "stored state is damaged", expected: str | None = None
) -> CheckpointError:
    """The error for stored bytes that are not what was written."""
    hint = "restore the checkpoint folder as a whole from a copy, or begin a new one"
    return CheckpointError(message, given=given, expected=expected, hint=hint)

"""The base of all outputs: an engine opens one once, gives it each batch with its number, and closes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from windrow.errors import InvalidArgumentError, SinkError
from windrow_runtime.codecs.malformed import shorten
from windrow_runtime.codecs.record_type import Field, RecordType


@dataclass(frozen=True, slots=True)
class Identity:
    """The query and the sink whose batches are written. A batch is known by its number and by these.

    Attributes:
        query: The query; it stays the same when a run goes on from a checkpoint, and differs between checkpoints.
        sink: The sink among those of the query.
    """

    query: str
    sink: str


class Output(ABC):
    """Writes the elements of one sink, batch by batch."""

    def open(self) -> None:  # noqa: B027  nothing to do by default
        """Make ready what is written to, before the first batch; by default there is nothing to do.

        Raises:
            SinkError: If it cannot be reached, or does not fit the elements.
            InvalidArgumentError: If the elements have no form there.
        """

    @abstractmethod
    def write(self, batch: int, values: Sequence[object]) -> None:
        """Write a batch. Transactional outputs write it whole or not at all, and not again under the same number.

        Args:
            batch: The number of the batch, higher than those of the batches before it.
            values: Its elements, at least one.

        Raises:
            SinkError: If it cannot be written.
            InvalidArgumentError: If an element is not of its type.
        """

    def close(self) -> None:  # noqa: B027  nothing to do by default
        """Let go of what :meth:`open` opened, when the run is over; by default there is nothing to do."""


def failure(message: str, error: Exception, clean: Callable[[str], str], **parts: str | None) -> SinkError:
    """Makes the error for one of a library, free of secrets. The caller raises it, from its own cause.

    Args:
        message: What failed.
        error: What the library raised.
        clean: Takes secrets out of a text.
        parts: The other parts of the error.
    """
    text = " ".join(clean(str(getattr(error, "orig", None) or error)).split())
    made = SinkError(f"{message}: {shorten(text) or type(error).__name__}", **parts)
    # A traceback shows the cause as well.
    made.__cause__ = None if _changes(clean, error) else error
    return made


def _changes(clean: Callable[[str], str], error: BaseException) -> bool:
    """Returns whether there is anything to clean in what a traceback of the error shows."""
    link: BaseException | None = error
    while link is not None:
        if any(clean(text) != text for text in (str(link), repr(link))):
            return True
        link = link.__cause__ or link.__context__
    return False


def fields_named(names: Sequence[str], kind: RecordType, what: str, where: str) -> list[Field]:
    """The fields with these names.

    Raises:
        InvalidArgumentError: If there is no such field.
    """
    by_name = {field.name: field for field in kind.columns}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise InvalidArgumentError(
            f"{what} names a field that {kind.name} does not have",
            given=", ".join(unknown),
            expected=f"fields of {kind.name}: {', '.join(by_name)}",
            where=where,
        )
    return [by_name[name] for name in names]

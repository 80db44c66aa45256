"""Defines a source that reads several sources one after the other: bounded ones, such as a history, then a live one.

``HybridSource(files).then(topic)`` reads all records of the files, and then those of the topic, as Flink's
``HybridSource`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from windrow.addresses.datasets import Dataset
from windrow.addresses.redaction import longest_first
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError, require_callable
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.plan.location import caller_location, refusal
from windrow.plan.types import base_argument
from windrow.sources import OnMalformed, Source, check_on_malformed

# Any in this module: sources of elements of every type, and offsets of every kind.

T = TypeVar("T")


@dataclass(frozen=True)
class SourceSwitch:
    """Where one source of a :class:`HybridSource` ended, for the function that makes the next source.

    Attributes:
        offsets: How far each partition was read: those of a source of your own by their names, those of topics as
            ``"topic/0"``. Files are one partition, ``"all"``, whose offset is their number, as are elements and rows.
    """

    offsets: Mapping[str, Any]
    _files: Callable[[], Sequence[str]] = field(default=tuple, repr=False)

    @property
    def files(self) -> Sequence[str]:
        """The absolute names of the files that were read, in order; none if the source reads no files."""
        return tuple(self._files())


class HybridSource(Source[T], Generic[T]):
    """Reads sources one after the other as one stream, without a gap and without a double.

    ``HybridSource(files).then(topic)`` is a backfill that goes on live. The sources, its parts, have elements of one
    type. All but the last come to an end: files, collections, Arrow data, topics with ``ending_offsets``, and a
    ``CustomSource`` that is bounded. The last may go on, as topics do.

    The first run lists the files of all parts, and reads these and no others; a ``CustomSource`` or topics before
    others end where they have reached their latest offset. A batch reads one part, in portions as ``files_per_batch``,
    ``batch_size``, ``next_offset`` or ``max_offsets_per_batch`` of the part says. When all of a part was read, the next
    one begins where it says itself: at its ``starting_offsets`` or ``initial_offset``. The list of the files, and how
    far each part was read, are in the checkpoint, so that a run that was killed goes on where it was, also between two
    parts. There is one watermark, which goes on from part to part.

    Malformed records of all parts have one destiny: their ``on_malformed`` is the same.

    Attributes:
        parts: The sources, and the functions that make some, in order.

    Args:
        first: The source that is read first.

    Raises:
        InvalidArgumentError: If it is no source.
        UnsupportedOperationError: If only Spark can read it, or it is neither in a mounted file system nor on S3.
    """

    connector_name = "hybrid"

    def __init__(self, first: Source[T]) -> None:
        if not isinstance(first, Source):
            raise refusal(
                "a hybrid source begins with a source",
                given=first,
                expected="a source that ends, such as JsonFileSource(...)",
                hint="then(...) takes the next source, or a function that makes it",
            )
        _check_part(first, None, None, where=caller_location(), follows=False)
        self.parts: tuple[Source[T] | Callable[[SourceSwitch], Source[T]], ...] = (first,)

    def then(self, following: Source[T] | Callable[[SourceSwitch], Source[T]]) -> HybridSource[T]:
        """The same source with one more part after it.

        Args:
            following: The source, or a function that makes it when the part before it has ended, of what that ended
                with: ``lambda switch: KafkaSource(..., starting_offsets=...)``. It makes topics or a ``CustomSource``.
                Each process that reads calls it, after a restart too, with the same argument, so it has to make the
                same source each time; where that begins is asked once, and kept. Its elements reach steps on columns
                as objects.

        Raises:
            InvalidArgumentError: If the part before it does not end, the elements have another type, malformed records
                go elsewhere, or topics begin at their latest records, which would leave out those that come meanwhile.
            UnsupportedOperationError: If only Spark can read it, or it is neither in a mounted file system nor on S3.
        """
        where = caller_location()
        last = self.parts[-1]
        if isinstance(last, Source):
            _check_ends(last, where)
        if isinstance(following, Source):
            others = [part for part in self.sources if part.has_malformed]
            rule = self.on_malformed if others else None
            _check_part(following, self.element_type, rule, where=where)
        elif not callable(following) or isinstance(following, type):
            raise InvalidArgumentError(
                "a part of a hybrid source is a source, or a function that makes one",
                given=following,
                expected="such as KafkaSource(...), or lambda switch: KafkaSource(...)",
                where=where,
            )
        else:
            what = "what makes a part of a hybrid source"
            require_callable(following, what, "a function of the switch", takes="switch", where=where)
        longer = copy(self)
        longer.parts = (*self.parts, following)
        return longer

    @property
    def sources(self) -> Sequence[Source[T]]:
        """The parts that no function makes."""
        return [part for part in self.parts if isinstance(part, Source)]

    @property
    def element_type(self) -> object | None:
        return next((kind for kind in map(_element_type, self.sources) if kind is not None), None)

    @property
    def on_malformed(self) -> OnMalformed:
        for source in self.sources:
            if source.has_malformed:
                return source.on_malformed
        return "fail"

    @property
    def is_bounded(self) -> bool:
        """Whether the last part comes to an end; one that a function makes is taken for one that does not."""
        last = self.parts[-1]
        return isinstance(last, Source) and last.is_bounded

    @property
    def is_endless(self) -> bool:
        """Whether the last part has no end; nobody knows it of one that a function makes."""
        last = self.parts[-1]
        return isinstance(last, Source) and last.is_endless

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the parts that no function makes."""
        return longest_first({secret for source in self.sources for secret in source.secrets})

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The names of what the parts read, without parts that a function makes later."""
        return [dataset for source in self.sources for dataset in source.datasets]

    @property
    def read_folders(self) -> Sequence[str]:
        """The folders of the parts that no function makes."""
        return [folder for source in self.sources for folder in source.read_folders]

    def check_part(self, *, follows: bool) -> None:
        try:
            super().check_part(follows=follows)
        except UnsupportedOperationError as error:
            error.hint = "HybridSource(first).then(second).then(third) has three parts"
            raise

    def describe(self) -> str:
        shown = (
            each.describe() if isinstance(each, Source) else f"what {function_name(each)} makes" for each in self.parts
        )
        return ", then ".join(shown)


def check_made(source: object, element_type: object | None, on_malformed: OnMalformed, *, is_last: bool) -> Source[Any]:
    """The source that a function has made, if it can be a part; engines call this.

    Args:
        source: What the function has made.
        element_type: The type of the elements of the other parts; None: it is not known.
        on_malformed: What becomes of their malformed records.
        is_last: Whether no part follows.

    Raises:
        InvalidArgumentError: If it is no such source, or does not go with the other parts.
    """
    if not isinstance(source, Source) or not source.has_offsets:
        raise InvalidArgumentError(
            "the function of a part makes a source that is read from its offsets",
            given=source.describe() if isinstance(source, Source) else repr(source),
            expected="topics that confluent-kafka reads, or a CustomSource",
            hint="give files, collections and Arrow data without a function",
        )
    _check_part(source, element_type, on_malformed)
    if not is_last:
        _check_ends(source)
    return source


def _check_ends(source: Source[Any], where: object = None) -> None:
    """Refuse a source without an end that another one shall follow."""
    is_bounded: object = source.is_bounded
    if is_bounded is not True:
        raise InvalidArgumentError(
            "a source that others follow comes to an end",
            given=source.describe(),
            expected="files, a collection, Arrow data, topics with ending_offsets, or a CustomSource whose "
            "is_bounded is True",
            where=where,
            hint="@property before a method" if callable(is_bounded) else "the last part alone may go on",
        )


def _check_part(
    source: Source[Any],
    element_type: object | None,
    on_malformed: OnMalformed | None,
    *,
    where: object = None,
    follows: bool = True,
) -> None:
    """Refuse a source that cannot be a part of a hybrid one, or does not go with its other parts."""
    try:
        source.check_part(follows=follows)
        check_on_malformed(source.on_malformed)
    except WindrowError as error:
        error.at(where)
        raise
    part_type = _element_type(source)
    if None not in (part_type, element_type) and part_type != element_type:
        raise InvalidArgumentError(
            "the parts of a hybrid source have elements of different types",
            given=f"{type_name(part_type)}, from {source.describe()}",
            expected=type_name(element_type),
            where=where,
            hint="map two streams to one type, and union them, where no order between them matters",
        )
    if on_malformed is not None and source.on_malformed != on_malformed and source.has_malformed:
        raise InvalidArgumentError(
            "malformed records of all parts of a hybrid source go one way",
            given=f"on_malformed={source.on_malformed!r}, of {source.describe()}",
            expected=f"on_malformed={on_malformed!r}, as in the parts before",
            where=where,
        )


def _element_type(source: Source[Any]) -> object | None:
    return source.element_type or base_argument(source, Source, 0)

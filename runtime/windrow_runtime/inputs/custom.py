"""Plans the batches of a user's own source, and reads them, with the same calls and errors on both engines."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from windrow.connectors import CustomSource
from windrow.connectors.custom_source import reads_arrow
from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sources import MalformedRecord
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch, TextRows, in_batches
from windrow_runtime.inputs.partitions import Told
from windrow_runtime.operators.errors import connector_errors, errors_at, shortened

# Any in this module: elements and offsets are of the user's types.

_NO_JSON: Final = object()

Offsets = Mapping[str, Sequence[Any]]
"""The offsets of partitions: two for each, the initial one, which is asked for only once, and how far it was read.

Those of topics have the id of the topic behind them, if brokers tell it.
"""


class Range(NamedTuple):
    """The offsets between which one batch reads a partition."""

    partition: str
    start: Any
    end: Any
    topic_id: str | None = None  # of the topic for which the offsets were planned, if brokers tell it

    @property
    def offsets(self) -> tuple[str, Any, Any]:
        """The partition and its two offsets, as a user's source gets them."""
        return self.partition, self.start, self.end


@dataclass(frozen=True)
class Reads(ABC):
    """The batches of a source that windrow itself plans and reads, by offsets that the engine keeps."""

    where: str
    kind: RecordType | None  # the type of the elements, if they are read as columns

    @abstractmethod
    def partitions(self) -> list[str]:
        """Returns the names of the partitions that there are now."""

    @abstractmethod
    def latest(self) -> dict[str, Any]:
        """Returns the latest offset of each partition."""

    @abstractmethod
    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Returns how far the next batch reads each partition, which the source may limit."""

    @abstractmethod
    def read(self, range_: Range) -> Iterator[Any]:
        """Reads the elements of a range, one by one or as columns."""

    @abstractmethod
    def commit(self, offsets: Offsets) -> None:
        """Tells the source up to which offsets it need not keep elements."""

    @property
    def is_bounded(self) -> bool:
        """Whether a partition ends at its latest offset."""
        return False

    def told(self, reached: Offsets, latest: Mapping[str, Any]) -> Told:
        """Returns what is told of the partitions behind the offsets that a batch reaches."""
        there = [name for name in reached if name in latest]
        waiting = [name for name in there if reached[name][1] != latest[name]]
        return Told(waiting if self.is_bounded else there, waiting)

    def advance_but(self, held: Collection[str], start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """As :meth:`advance`, without elements of partitions that are ``held`` back."""
        return self.advance(start, {**latest, **{name: start[name][1] for name in held if name in start}})

    def check_end(self, done: Offsets, latest: Mapping[str, Any]) -> None:  # noqa: B027  nothing to check by default
        """Refuses a source that returned an empty batch before it reached its latest offsets."""

    def to_the_end(
        self, held: Callable[[], Collection[str]] = tuple
    ) -> Iterator[tuple[list[Range], dict[str, list[Any]], Told]]:
        """Yields the ranges of batches up to the current latest offsets.

        Each comes with the offsets that it reaches, and what is told of the partitions. ``held`` is asked before each
        for the partitions of which it reads nothing; if there are no others, it has no ranges.
        """
        latest = self.latest()
        done: dict[str, list[Any]] = {}
        while True:
            waits = held()
            ranges = self.ranges(done, following := self.advance_but(waits, done, latest))
            if not ranges and not waits:
                break
            yield ranges, following, self.told(following, latest)
            done = following
        self.check_end(following, latest)

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns the ranges that a batch reads; partitions without new elements are left out."""
        ranges = (
            Range(name, start[name][1] if name in start else begin, reached, *topic_id)
            for name, (begin, reached, *topic_id) in end.items()
        )
        return [each for each in ranges if each.start != each.end]


@dataclass(frozen=True)
class CustomReads(Reads):
    """Calls a user's own source; its errors name the step."""

    source: CustomSource[Any, Any]

    @classmethod
    def of(cls, source: CustomSource[Any, Any], step: Step) -> CustomReads:
        """Returns the reads of a step's source."""
        if not reads_arrow(source):
            return cls(step.where, None, source)
        with errors_at(step.where):
            check_pyarrow("sources that give Arrow data are read")
            return cls(step.where, record_type(step.node.element_type), source)

    @property
    def is_bounded(self) -> bool:
        return self.source.is_bounded

    def partitions(self) -> list[str]:
        with self._errors("partitions"):
            partitions = self.source.partitions()
            names = [partitions] if isinstance(partitions, str) else list(partitions)
        for name in names:
            if name is partitions or not isinstance(name, str):
                raise InvalidArgumentError(
                    "partitions() returns the names of the partitions",
                    given=partitions,
                    expected="several str, as in a list or a tuple",
                    where=self.where,
                )
        return names

    def latest(self) -> dict[str, Any]:
        return {name: self._offset("latest_offset", name) for name in self.partitions()}

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        end = {name: list(offsets) for name, offsets in start.items()}
        for name, last in sorted(latest.items()):
            if name not in end:
                begin = self._offset("initial_offset", name)
                end[name] = [begin, begin]
            reached = end[name][1]
            if reached != last:
                self._check_order("latest_offset", name, reached, last)
                end[name][1] = self._offset("next_offset", name, reached, last)
                self._check_order("next_offset", name, reached, end[name][1], last)
        return end

    def _check_order(self, method: str, partition: str, *offsets: Any) -> None:
        """Refuses numeric offsets that do not ascend; the order of other offsets is not known."""
        if all(isinstance(offset, (int, float)) for offset in offsets) and list(offsets) != sorted(offsets):
            raise InvalidArgumentError(
                "the offsets of a source never go back, and none lies behind the latest one",
                given=f"{offsets[1]} from {method}({partition!r}), which was read up to {offsets[0]}",
                expected=f"an offset from {offsets[0]} on" + (f" to {offsets[-1]}" if len(offsets) > 2 else ""),
                where=self.where,
                hint="where a service knows less than before, return the offset that was read",
            )

    def check_end(self, done: Offsets, latest: Mapping[str, Any]) -> None:
        for name, (_, reached) in done.items():
            if name in latest and reached != latest[name]:
                raise InvalidArgumentError(
                    "a source that is read to its end moves on towards its latest offset",
                    given=f"{reached!r} from next_offset({name!r}), which was read up to there",
                    expected=f"an offset behind it, up to {latest[name]!r}",
                    where=self.where,
                )

    def read(self, range_: Range) -> Iterator[Any]:
        return in_batches(self._pairs(range_), str) if self.kind is None else self._read_arrow(range_, self.kind)

    def _read_arrow(self, range_: Range, kind: RecordType) -> Iterator[Any]:
        # Arrow only where a source gives it: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.exchanged import arrow_rows
        from windrow_runtime.codecs.arrow.text_blocks import no_rows

        first = 0
        origin = f"{range_.partition} from {range_.start!r} to {range_.end!r}"
        with self._errors("read_arrow", *range_.offsets):
            for data in self.source.read_arrow(*range_.offsets):
                if isinstance(data, MalformedRecord):
                    yield TextRows(no_rows(kind), kind, [(0, SourceBatch(malformed=[data]))])
                    continue
                for rows in arrow_rows(data, kind, origin, first):
                    yield rows
                    first = rows.first + rows.rows.num_rows

    def _pairs(self, range_: Range) -> Iterator[tuple[Range, Any]]:
        with self._errors("read", *range_.offsets):
            yield from ((range_, element) for element in self.source.read(*range_.offsets))

    def commit(self, offsets: Offsets) -> None:
        for name, (_, reached) in offsets.items():
            with self._errors("commit", name, reached):
                self.source.commit(name, reached)

    def _offset(self, method: str, partition: str, *arguments: Any) -> Any:
        with self._errors(method, partition, *arguments):
            offset = getattr(self.source, method)(partition, *arguments)
        try:
            # The offset is copied, since the source may change the list or dict that it returned.
            kept = json.loads(json.dumps(offset, allow_nan=False))
        except (TypeError, ValueError):
            kept = _NO_JSON
        if kept != offset:
            raise InvalidArgumentError(
                "an offset of a source is kept as JSON, and this one changes on the way",
                given=f"{shortened(offset)} from {method}({partition!r})",
                expected="None, a bool, a number or a str, or lists and dicts of these with str keys",
                where=self.where,
                hint="a list instead of a tuple, a text instead of a datetime",
            )
        return kept

    def _errors(self, method: str, *arguments: Any) -> AbstractContextManager[None]:
        return connector_errors(
            self.where,
            "a method of the source",
            lambda: f"{method}({', '.join(map(shortened, arguments))})",
            "; SourceError says that a service is away",
        )

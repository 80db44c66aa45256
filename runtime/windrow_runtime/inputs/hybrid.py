"""Reads the parts of a hybrid source one after the other, with the same batches and errors on both engines.

The offsets of a batch are a list: how far each part was read that has begun. A part that has nothing left is followed
by the next one, so the switch is in the offsets that the engine keeps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from windrow.addresses.paths import PathGuard
from windrow.addresses.redaction import redact_address
from windrow.connectors import CustomSource
from windrow.connectors.hybrid import HybridSource, SourceSwitch, check_made
from windrow.errors import warn
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.plan.nodes import Node
from windrow.sources import ArrowSource, CollectionSource, FileSource, OnMalformed, Source
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.inputs.batches import SourceBatch
from windrow_runtime.inputs.custom import CustomReads, Offsets, Range, Reads
from windrow_runtime.inputs.files import FileReader, TextReader
from windrow_runtime.inputs.listing import FileOrder
from windrow_runtime.inputs.partitions import Told
from windrow_runtime.inputs.text_blocks import TextBlockReader
from windrow_runtime.inputs.topics import TopicReads
from windrow_runtime.operators.errors import connector_errors, errors_at, shortened

# Any in this module: elements and offsets of every type, and pyarrow has no types.

_ALL: Final = "all"
"""The one partition of files, elements and rows."""

Chunk = list[tuple[str, int, int]]
"""What one task reads: files, each with the number of a part and how many parts it has."""


def _one_chunk(names: Sequence[str]) -> list[Chunk]:
    return [[(name, 0, 1) for name in names]]


@dataclass(frozen=True)
class CountedReads(Reads):
    """Reads a fixed number of files, elements or rows, which offsets count."""

    per_batch: int | None

    @abstractmethod
    def count(self) -> int:
        """Returns how many there are."""

    @property
    def is_bounded(self) -> bool:
        return True

    def partitions(self) -> list[str]:
        return [_ALL]

    def latest(self) -> dict[str, Any]:
        return {_ALL: self.count()}

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        reached, last = start[_ALL][1] if start else 0, latest[_ALL]
        # A collection that has become shorter since the last run has nothing left.
        return {_ALL: [0, max(reached, last if self.per_batch is None else min(last, reached + self.per_batch))]}

    def commit(self, offsets: Offsets) -> None:
        """Does nothing: what is read stays where it is."""


@dataclass(frozen=True)
class FileReads(CountedReads):
    """Reads the files that were listed when the stream began."""

    path: str
    pattern: str  # the end of the path if it is a pattern
    reader: FileReader | TextBlockReader
    listed: Callable[[], Sequence[str]]
    divide: Callable[[Sequence[str]], list[Chunk]]  # for the tasks of a batch

    @classmethod
    def of(
        cls,
        source: FileSource[Any],
        order: FileOrder,
        reader: FileReader | TextBlockReader,
        listed: Callable[[], Sequence[str]],
        divide: Callable[[Sequence[str]], list[Chunk]] = _one_chunk,
    ) -> FileReads:
        """Returns the reads of a part; by default a batch is one chunk."""
        kind, path = None if isinstance(reader, TextReader) else reader.kind, order.literal + order.pattern
        return cls(order.where, kind, source.files_per_batch, path, order.pattern, reader, listed, divide)

    def count(self) -> int:
        return len(self.listed())

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns a range for each task, which has the names of its files in place of offsets."""
        files = [self.listed()[each.start : each.end] for each in super().ranges(start, end)]
        return [Range(_ALL, chunk, None) for portion in files for chunk in self.divide(portion)]

    def read(self, range_: Range) -> Iterator[Any]:
        guard = PathGuard(self.path, self.pattern)
        for file, part, parts in range_.start:
            with errors_at(self.where):
                guard.check(file)  # a link may lead elsewhere since it was listed
            with errors_at(f"{self.where}, {file}"):
                yield from self.reader.read(file, part, parts)


@dataclass(frozen=True)
class RowReads(CountedReads):
    """Reads elements or rows of the program."""

    size: int
    rows: Callable[[int, int], Iterator[Any]]

    def count(self) -> int:
        return self.size

    def read(self, range_: Range) -> Iterator[Any]:
        yield from self.rows(range_.start, range_.end)


@dataclass(frozen=True)
class HybridReads(Reads):
    """Plans the batches of a hybrid source, and reads them: each batch reads one part."""

    step: Step  # has no source: workers need none
    rule: OnMalformed
    parts: tuple[Reads | Callable[[SourceSwitch], Source[Any]], ...]
    sources: dict[int, Reads] = field(default_factory=dict)  # the parts that functions have made, by their number

    @classmethod
    def of(
        cls,
        source: HybridSource[Any],
        step: Step,
        files: Callable[[FileSource[Any], int], FileReads],
        elements: Callable[[CollectionSource[Any]], Callable[[], Sequence[Any]]],
    ) -> HybridReads:
        """Returns the reads of a step's source, with those that an engine has for a part of files, and for elements."""
        parts: list[Any] = []
        for place, part in enumerate(source.parts):
            if isinstance(part, FileSource):
                parts.append(files(part, place))
            elif isinstance(part, CollectionSource):
                rows = partial(_elements, elements(part))
                parts.append(RowReads(step.where, None, part.batch_size, len(part.elements), rows))
            elif isinstance(part, ArrowSource):
                parts.append(_arrow_reads(part, step))
            else:
                parts.append(_own_reads(part, step) if isinstance(part, Source) else part)
        kinds = [part.kind if isinstance(part, Reads) else None for part in parts]
        kind = None if None in kinds or len(source.timezones) > 1 else kinds[0]
        node = Node(location=step.node.location, name=step.node.name, element_type=step.node.element_type)
        shipped = Step(step.id, step.index, node, (), step.scope)
        return cls(step.where, kind, shipped, source.on_malformed, tuple(parts))

    def latest(self) -> dict[str, Any]:
        """Returns a place for the latest offsets of parts, each of which is asked for them once when its turn comes."""
        return {"parts": {}}

    def partitions(self) -> list[str]:
        """Returns the partitions of the first part: those of others are not there yet."""
        return [f"0/{name}" for name in self._part(0, ()).partitions()]

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        return self.advance_but((), start, latest)

    def advance_but(self, held: Collection[str], start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        parts: list[Any] = list(start.get("parts", ())) or [{}]
        while True:
            place, before = len(parts) - 1, parts[-1]
            reads, known = self._part(place, parts), self._latest_of(parts, latest)
            waits = {name.removeprefix(f"{place}/") for name in held} & before.keys()
            parts[-1] = reads.advance_but(waits, before, known)
            # A part that waits for others has not ended.
            if place == len(self.parts) - 1 or waits or Reads.ranges(reads, before, parts[-1]):
                return {"parts": parts}
            reads.check_end(parts[-1], known)
            parts.append({})

    def told(self, reached: Offsets, latest: Mapping[str, Any]) -> Told:
        parts = reached["parts"]
        partitions = self._part(len(parts) - 1, parts).told(parts[-1], self._latest_of(parts, latest))
        return Told(*([f"{len(parts) - 1}/{name}" for name in names] for names in partitions))

    def _latest_of(self, parts: Sequence[Offsets], latest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the latest offsets of the part whose turn it is."""
        place, known = len(parts) - 1, latest["parts"]
        if place not in known:
            known[place] = self._part(place, parts).latest()
        offsets: Mapping[str, Any] = known[place]
        return offsets

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns ranges named by part and partition: the part's own, and with what the part before it ended."""
        before, after = (list(offsets.get("parts", ())) for offsets in (start, end))
        before += [{}] * (len(after) - len(before))
        return [
            Range(f"{place}/{each.partition}", list(each), after[:place][-1:])
            for place, offsets in enumerate(after)
            if offsets != before[place]
            for each in self._part(place, after).ranges(before[place], offsets)
        ]

    def read(self, range_: Range) -> Iterator[Any]:
        place = int(range_.partition.partition("/")[0])
        return self._part(place, [{}] * (place - 1) + range_.end).read(Range(*range_.start))

    def commit(self, offsets: Offsets) -> None:
        parts = offsets.get("parts", ())
        if parts:
            self._part(len(parts) - 1, parts).commit(parts[-1])

    def check_end(self, done: Offsets, latest: Mapping[str, Any]) -> None:
        parts = done["parts"]
        self._part(len(parts) - 1, parts).check_end(parts[-1], self._latest_of(parts, latest))

    def _part(self, place: int, offsets: Sequence[Offsets]) -> Reads:
        """Returns the reads of a part; a function makes its source of the offsets with which the one before ended."""
        part = self.parts[place]
        if isinstance(part, Reads):
            return part
        if place not in self.sources:
            ended = {name: reached for name, (_, reached, *_) in offsets[place - 1].items()}
            switch = SourceSwitch(ended, getattr(self.parts[place - 1], "listed", tuple))
            with connector_errors(self.where, "the function that makes the next source", lambda: shortened(switch)):
                is_last, kind = place == len(self.parts) - 1, self.step.node.element_type
                source = check_made(part(switch), kind, self.rule, is_last=is_last)
            self.sources[place] = _own_reads(source, self.step)
        return self.sources[place]


def list_files(order: FileOrder, step: Step) -> list[str]:
    """Returns the files of a part, as they are when the stream begins; warns if there are none."""
    files = order.found()
    if not files:
        warn(
            "a part of a hybrid source has no files, so it gives nothing",
            given=redact_address(order.path),
            where=step.where,
            hint="the files are there before the first run; those that come later are not read",
            location=step.node.location,
        )
    return files


def _own_reads(source: Source[Any], step: Step) -> Reads:
    if isinstance(source, TopicSource):
        return TopicReads.of(source, step)
    assert isinstance(source, CustomSource), "a hybrid source refuses others"
    return CustomReads.of(source, step)


def _arrow_reads(source: ArrowSource[Any], step: Step) -> RowReads:
    with errors_at(step.where):
        check_pyarrow("Arrow data is read")
        # Arrow only where a source has it: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.exchanged import rows_of_source

        kind, table = rows_of_source(source)
    rows = partial(_table_rows, table, kind, source.describe())
    return RowReads(step.where, kind, source.batch_size, table.num_rows, rows)


def _table_rows(table: Any, kind: RecordType, origin: str, start: int, end: int) -> Iterator[Any]:
    from windrow_runtime.codecs.arrow.exchanged import arrow_rows

    return arrow_rows(table.slice(start, end - start), kind, origin, start)


def _elements(elements: Callable[[], Sequence[Any]], start: int, end: int) -> Iterator[SourceBatch]:
    yield SourceBatch(list(elements()[start:end]))

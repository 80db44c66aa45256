"""Reads the parts of a hybrid source one after the other, with the same batches and errors on both engines.

The offsets of a batch are a list: how far each part was read that has begun. A part that has nothing left is followed
by the next one, so the switch is in the offsets that the engine keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from windrow.connectors.hybrid import HybridSource, SourceSwitch, check_made
from windrow.plan import Step
from windrow.plan.base_node import Node
from windrow.sources import OnMalformed, Source
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.offsets import Offsets, Range, Reads
from windrow_runtime.inputs.reader import SourceReader, reader_for
from windrow_runtime.metrics.reports import Backlog
from windrow_runtime.operators.errors import connector_errors, shortened

# Any in this module: elements and offsets of every type.


class HybridReader(SourceReader[HybridSource[Any]]):
    """Reads the parts of a hybrid source."""

    @property
    def parts(self) -> list[SourceReader[Source[Any]]]:
        """The readers of the parts that no function makes."""
        return [reader_for(part, self.step) for part in self.source.sources]

    def reads(self, columns: frozenset[str] | None = None) -> HybridReads:
        return self.reads_by(lambda part, place: reader_for(part, self.step).as_part(place))

    def reads_by(self, reads_of: Callable[[Source[Any], int], Reads]) -> HybridReads:
        """Returns the reads of the source, with those that an engine has for a part and its number."""
        parts = tuple(
            [
                reads_of(part, place) if isinstance(part, Source) else part
                for place, part in enumerate(self.source.parts)
            ]
        )
        kinds = [part.record_type if isinstance(part, Reads) else None for part in parts]
        record_type = None if None in kinds or len(self.timezones) > 1 else kinds[0]
        node = self.step.node
        shipped = replace(self.step, node=Node(location=node.location, name=node.name, element_type=node.element_type))
        return HybridReads(self.step.where, record_type, replace(shipped, inputs=()), self.source.on_malformed, parts)

    @property
    def timezones(self) -> set[object]:
        """Where the clocks of times without an offset are, in the parts that windrow decodes."""
        return {reader.timezone for reader in self.parts}

    def check(self, *, waits: bool = False) -> None:
        for reader in self.parts:
            reader.check(waits=True)  # the first run alone reads what parts have

    @property
    def ending_hint(self) -> str:
        last = self.source.parts[-1]
        return reader_for(last, self.step).ending_hint if isinstance(last, Source) else ""

    @property
    def has_partitions(self) -> bool:
        return True

    @property
    def stored_kind(self) -> str:
        kinds = (
            reader_for(part, self.step).stored_kind if isinstance(part, Source) else "a function"
            for part in self.source.parts
        )
        return f"{super().stored_kind} of {' and '.join(kinds)}"


@dataclass(frozen=True)
class HybridReads(Reads):
    """Plans the batches of a hybrid source, and reads them: each batch reads one part."""

    step: Step  # has no source: workers need none
    rule: OnMalformed
    parts: tuple[Reads | Callable[[SourceSwitch], Source[Any]], ...]
    sources: dict[int, Reads] = field(default_factory=dict)  # the parts that functions have made, by their number
    tasks: int = 1  # those that share the ranges of a batch
    divided: bool = False  # whether several of them may read one partition

    def shared_by(self, tasks: int, *, divided: bool) -> HybridReads:
        parts = [part.shared_by(tasks, divided=divided) if isinstance(part, Reads) else part for part in self.parts]
        return replace(self, parts=tuple(parts), tasks=tasks, divided=divided)

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

    def open_partitions(self, reached: Offsets, latest: Mapping[str, Any]) -> OpenPartitions:
        parts = reached["parts"]
        partitions = self._part(len(parts) - 1, parts).open_partitions(parts[-1], self._latest_of(parts, latest))
        return OpenPartitions(*([f"{len(parts) - 1}/{name}" for name in names] for names in partitions))

    def backlog(self, reached: Offsets, latest: Mapping[str, Any]) -> Backlog | None:
        """Returns what is left of the part whose turn it is: nobody asks the others before."""
        parts = reached.get("parts", ())
        if not parts:
            return None
        return self._part(len(parts) - 1, parts).backlog(parts[-1], self._latest_of(parts, latest))

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
                is_last, type_form = place == len(self.parts) - 1, self.step.node.element_type
                source = check_made(part(switch), type_form, self.rule, is_last=is_last)
            reads = reader_for(source, self.step).as_part(place)
            self.sources[place] = reads.shared_by(self.tasks, divided=self.divided)
        return self.sources[place]

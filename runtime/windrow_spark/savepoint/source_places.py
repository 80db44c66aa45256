"""Finds the sources of a plan among those of a savepoint: by their names, by what they read, or by their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from windrow.plan import Step
from windrow_runtime.inputs.reader import reader_of
from windrow_spark.checkpoint.folder import StoredSource
from windrow_spark.checkpoint.stored_streams import StreamMarks
from windrow_spark.sources.scanner import scanner_of

_READS: Final = "what it reads"


@dataclass(frozen=True, slots=True)
class SourcePlaces:
    """Where each source of a plan was among those of a savepoint.

    Attributes:
        places: For each source of the plan its place there; None: it is new.
        stored: What the checkpoint stores of the plan's sources.
        gone: The places of the sources that the plan does not have.
    """

    places: Sequence[int | None]
    stored: Sequence[StoredSource]
    gone: Sequence[int] = ()

    @property
    def are_others(self) -> bool:
        """Whether sources have come, gone or moved."""
        return bool(self.gone) or [*self.places] != [*range(len(self.places))]

    @property
    def by_place(self) -> Mapping[int, int]:
        """The place of each source in the plan, by its place in the savepoint; sources that are gone are left out."""
        return {before: now for now, before in enumerate(self.places) if before is not None}


@dataclass
class PlacedSources:
    """Finds the sources; ``refused`` has a line for each change with which no run can go on.

    ``origins`` has the names of sources in the savepoint, by those in the plan.
    """

    steps: Sequence[Step]
    before: Sequence[StoredSource]
    marks: Sequence[StreamMarks] | None  # None: an older version has written the savepoint's checkpoint
    now: Sequence[StreamMarks]
    origins: Mapping[str, str]

    def __post_init__(self) -> None:
        self._found: dict[int, int] = {}
        self.refused: list[str] = []
        self.changes: list[str] = []

    def found(self) -> SourcePlaces:
        """Returns the places of all sources, and fills ``refused`` and ``changes``."""
        kinds = [reader_of(step).stored_kind for step in self.steps]
        if self.marks is None:
            if kinds != [source.kind for source in self.before]:
                self.refused.append("an earlier version has stored nothing by which sources could be told apart")
            return SourcePlaces(range(len(kinds)), self.before)
        marks = self.marks
        self._by_name(marks, kinds)
        self._by_what_they_read(marks, kinds)
        self._by_order(marks, kinds)
        for number in self._unclear(marks, kinds):
            self.refused.append(
                f"{self.steps[number].where}: nobody can say whether it is a new source, or which one of before"
            )
        places = [self._found.get(number) for number in range(len(kinds))]
        gone = [place for place in range(len(self.before)) if place not in self._found.values()]
        result = SourcePlaces(places, self._stored(kinds), gone)
        if result.are_others:
            self.refused += [
                f"{step.where}: a stream of your own may have several sources, so no others come or go beside it"
                for step in self.steps
                if scanner_of(step).is_stream_of_user
            ]
        self.changes += [
            f"{step.where} is new, and is read from its beginning"
            for step, place in zip(self.steps, places, strict=True)
            if place is None
        ]
        self.changes += [
            f"source {marks[place].name or f'{place + 1} ({self.before[place].kind})'} is gone, and so is its position"
            for place in gone
        ]
        return result

    def _by_name(self, marks: Sequence[StreamMarks], kinds: Sequence[str]) -> None:
        named = {each.name: place for place, each in enumerate(marks) if each.name is not None}
        for number, step in enumerate(self.steps):
            place = None if step.name is None else named.get(self.origins.get(step.name, ""))
            if place is None:
                continue
            self._found[number] = place
            if self.before[place].kind != kinds[number]:
                was = self.before[place].kind
                self.refused.append(f"{step.where}: the source was {was} and is {kinds[number]}")

    def _by_what_they_read(self, marks: Sequence[StreamMarks], kinds: Sequence[str]) -> None:
        """Finds the sources that read what exactly one of the savepoint has read, or as many as there were."""
        groups: defaultdict[tuple[str, str | None], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for number, kind in enumerate(kinds):
            if number not in self._found:
                groups[kind, self.now[number].moving.get(_READS)][0].append(number)
        for place in self._left():
            groups[self.before[place].kind, marks[place].moving.get(_READS)][1].append(place)
        for (_, reads), (numbers, places) in groups.items():
            pairs = [*zip(numbers, places, strict=False)]
            if reads is not None and len(numbers) == len(places) and all(self._may_be(marks, *pair) for pair in pairs):
                self._found |= dict(pairs)

    def _by_order(self, marks: Sequence[StreamMarks], kinds: Sequence[str]) -> None:
        """Finds the sources that may read from elsewhere by now, if no source has come or gone or moved."""
        if kinds != [source.kind for source in self.before] or any(a != b for a, b in self._found.items()):
            return
        for place in self._left():
            if place not in self._found and self._may_be(marks, place, place):
                self._found[place] = place

    def _unclear(self, marks: Sequence[StreamMarks], kinds: Sequence[str]) -> list[int]:
        return [
            number
            for number, kind in enumerate(kinds)
            if number not in self._found
            and any(self.before[place].kind == kind and self._may_be(marks, number, place) for place in self._left())
        ]

    def _left(self) -> list[int]:
        return [place for place in range(len(self.before)) if place not in self._found.values()]

    def _may_be(self, marks: Sequence[StreamMarks], number: int, place: int) -> bool:
        """Returns whether a source may be one of the savepoint's, which another name rules out."""
        return None in (self.steps[number].name, marks[place].name)

    def _stored(self, kinds: Sequence[str]) -> list[StoredSource]:
        used = {source.folder for source in self.before}
        free = (f"{number}" for number in range(len(used) + len(kinds)) if f"{number}" not in used)
        return [
            self.before[self._found[number]] if number in self._found else StoredSource(kind, next(free))
            for number, kind in enumerate(kinds)
        ]

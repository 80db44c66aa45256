"""Stores which sinks write which targets, so that each finds its own mark in its target when the plan has changed.

A sink notes in its target which batches it has written, under a label, since several sinks may write to one table or
topic. A later run finds the sink of before by its name, or by what it writes and its address; its place among the
others says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow_runtime.outputs.registry import labels_of
from windrow_runtime.outputs.writer import Target


@dataclass(frozen=True, slots=True)
class SinkMarks:
    """The marks of a sink, by which a later run finds it again.

    Attributes:
        target: Where it writes to.
        name: The name that the user gave the step.
        place: A digest of its address.
        writes: A digest of the functions upstream of it, and of what feeds them.
    """

    target: Target
    name: str | None
    place: str
    writes: str

    def may_be(self, before: SinkMarks) -> bool:
        """Returns whether this may be the sink of before, which another name rules out."""
        return None in (self.name, before.name) or self.name == before.name


@dataclass(frozen=True, slots=True)
class StoredSink:
    """A sink of a stored plan, and the label with which it notes batches in its target."""

    label: str
    marks: SinkMarks
    is_gone: bool = False  # a later plan does not have it


_IN_COMMON: Final[Sequence[Callable[[SinkMarks], object]]] = (
    lambda marks: (marks.place, marks.writes),
    lambda marks: marks.writes,
    lambda marks: marks.place,
    lambda marks: None,
)
"""What a sink has in common with the one of before, from the most to the least."""

_OF_GONE: Final = 2
"""How many of these find a sink again that was gone: it writes what it wrote."""

_HINT: Final = 'give each of them a name: sink_to(sink, name="...")'


@dataclass(frozen=True, slots=True)
class FoundSinks:
    """The sinks of a plan, by their steps, and former sinks, as the checkpoint will store them.

    ``refused`` has a line for each sink of which nobody can say which one it was, or that has changed places.
    """

    now: Mapping[Step, StoredSink]
    gone: Sequence[StoredSink] = ()
    refused: Sequence[str] = ()

    @property
    def all(self) -> list[StoredSink]:
        """Returns what the checkpoint shall store."""
        return [*self.now.values(), *self.gone]

    @property
    def labels(self) -> dict[str, str]:
        """Returns the label of each sink, by the id of its step."""
        return {step.id: each.label for step, each in self.now.items()}


def new_sinks(marks: Mapping[Step, SinkMarks]) -> FoundSinks:
    """Gives the sinks of a new checkpoint labels by their order; refuses those that no later run could tell apart."""
    first: dict[SinkMarks, Step] = {}
    for step, each in marks.items():
        other = first.setdefault(each, step)
        if other is not step and each.target.is_exact:
            raise InvalidArgumentError(
                "two sinks write the same to one target, and a run that goes on could not tell them apart",
                given=f"{other.where} and {step.where}: {step.node.describe()}",
                expected="sinks that differ by what they write, by their addresses or by their names",
                where=step.where,
                hint=_HINT,
            )
    return unstored_sinks(marks)


def unstored_sinks(marks: Mapping[Step, SinkMarks]) -> FoundSinks:
    """Gives sinks labels by their order, as earlier versions did at each start."""
    labels = labels_of({step: own.target for step, own in marks.items()})
    return FoundSinks({step: StoredSink(labels[step], own) for step, own in marks.items()})


def found_sinks(
    stored: Sequence[StoredSink], marks: Mapping[Step, SinkMarks], is_accepted: Callable[[Step], bool]
) -> FoundSinks:
    """Matches the sinks of a plan with those that a checkpoint has stored, and gives new sinks unused labels."""
    pairs: dict[Step, StoredSink] = {}
    refused: list[str] = []
    for target in dict.fromkeys(own.target for own in marks.values()):
        in_plan = {step: own for step, own in marks.items() if own.target == target}
        before = [each for each in stored if each.marks.target == target]
        pairs |= _pairs(in_plan, before)
        left = [each for each in before if each not in pairs.values() and not each.is_gone]
        for step, own in in_plan.items():
            candidates = [each for each in left if own.may_be(each.marks) or own.writes == each.marks.writes]
            if step in pairs or not candidates:
                continue
            if target.is_exact and not is_accepted(step):
                refused.append(
                    f"{step.where}: nobody can say whether it is a new sink, or which one of those that have written "
                    f"{step.node.describe()}"
                )
            pairs[step] = candidates[0]
            left.remove(candidates[0])
    refused += _exchanged({step: (each.marks, marks[step]) for step, each in pairs.items() if not is_accepted(step)})
    new = {step: own.target for step, own in marks.items() if step not in pairs}
    labels = labels_of(new, [(each.marks.target.kind, each.label) for each in stored])
    now = {step: StoredSink(pairs[step].label if step in pairs else labels[step], own) for step, own in marks.items()}
    gone = [replace(each, is_gone=True) for each in stored if each not in pairs.values()]
    return FoundSinks(now, gone, refused)


def _pairs(now: Mapping[Step, SinkMarks], before: Sequence[StoredSink]) -> dict[Step, StoredSink]:
    """Pairs the sinks of one target with stored ones: by name, then by marks that exactly one sink of each plan has."""
    names = {each.marks.name: each for each in before if each.marks.name is not None}
    pairs = {step: names[own.name] for step, own in now.items() if own.name in names}
    for number, common in enumerate(_IN_COMMON):
        left = [each for each in before if each not in pairs.values() and (number < _OF_GONE or not each.is_gone)]
        alike = {
            step: [each for each in left if common(each.marks) == common(own) and own.may_be(each.marks)]
            for step, own in now.items()
            if step not in pairs
        }
        rivals = Counter(each.label for candidates in alike.values() for each in candidates)
        for step, candidates in alike.items():
            if len(candidates) == 1 and rivals[candidates[0].label] == 1:
                pairs[step] = candidates[0]
    return pairs


def _exchanged(pairs: Mapping[Step, tuple[SinkMarks, SinkMarks]]) -> Iterator[str]:
    """Yields the unnamed sinks that now write the stream of another sink, which itself writes another one now."""
    for step, (before, now) in pairs.items():
        if before.writes == now.writes or now.name is not None:
            continue
        for other, (theirs, new) in pairs.items():
            if other is not step and theirs.writes == now.writes != new.writes:
                yield f"{step.where}: what it writes was what {other.where} wrote"
                break

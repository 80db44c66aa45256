"""Turns a pattern into states and edges: after which element which ones may be the next of a match.

A state is the part of the last matched element, with the number of elements or rounds of that part and of the groups
around it. Numbers beyond the least one of a loop make no difference and are one state. States are made when they are
first asked for. The number of a state depends on the pattern alone, so that it can be stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from windrow.patterns.parts import EVERY_ELEMENT, Condition, Part, Relation


class Guard(NamedTuple):
    """A greedy part that was left: elements that meet its condition end the way, until one meets ``until``."""

    condition: int
    until: int | None
    bit: int  # of the mask of a partial match, set while no element has met ``until``


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """A way on from a state: to an element of a part, or to the end of the pattern.

    Attributes:
        bit: Of the mask of a partial match, set while the edge is open; masks of 0 have nothing to wait for.
        state: The state behind it; None, it leads to the end of the pattern.
        leaf: The part of the element.
        condition: What the element meets, a number as all conditions here.
        takes_next: Whether it must be the very next element.
        takes_any: Whether it may be any element, else the first that meets the condition.
        bars: Conditions of parts that it enters: an element that meets one is not taken.
        ends: Conditions of parts in which it stays: an element that meets one ends the edge.
        not_next: Conditions that the very next element must not meet.
        not_between: Conditions that no element before the taken one must meet.
        guards: The greedy parts that were left.
        limit: How long after the last element it ends, in milliseconds.
        ends_by_time: Whether, at the end of the pattern, the match is complete when the time is up.
        is_plain: Whether the condition, without what was matched before, and the place of an element alone decide.
    """

    bit: int
    state: int | None
    leaf: int
    condition: int
    takes_next: bool
    takes_any: bool
    bars: tuple[int, ...]
    ends: tuple[int, ...]
    not_next: tuple[int, ...]
    not_between: tuple[int, ...]
    guards: tuple[Guard, ...]
    limit: int | None
    ends_by_time: bool
    is_plain: bool


class State(NamedTuple):
    """What may follow a matched element.

    Attributes:
        accepts: Whether the match is complete with that element.
        edges: The ways on.
        mask: The bits of all edges, and of their guards.
        limit: The shortest limit of an edge; None: there is none.
        only: The edge, if there is one alone and it is plain.
    """

    accepts: bool
    edges: tuple[Edge, ...]
    mask: int
    limit: int | None
    only: Edge | None


@dataclass(slots=True, eq=False)
class _Item:
    """A part in the tree of a pattern. The root stands for the whole pattern."""

    part: Part
    parent: _Item | None
    place: int = 0
    items: list[_Item] = field(default_factory=list)
    leaf: int = -1

    @property
    def width(self) -> int:
        """The number of counts that make a difference, zero included."""
        return (self.part.least if self.part.most is None else self.part.most) + 1

    def further(self, count: int) -> int | None:
        """The count after one more element or round; None: there may be no more."""
        if self.part.most is None:
            return min(count + 1, self.part.least)
        return count + 1 if count < self.part.most else None

    def behind(self) -> Iterator[Part]:
        """Yields the parts directly behind that must not come."""
        assert self.parent is not None
        for item in self.parent.items[self.place + 1 :]:
            if not item.part.relation.forbids:
                return
            yield item.part


@dataclass(frozen=True, slots=True)
class _Way:
    """What a way from an element to the next one has passed."""

    not_next: tuple[Condition, ...] = ()
    not_between: tuple[Condition, ...] = ()
    guards: tuple[Part, ...] = ()
    ends: tuple[Condition, ...] = ()
    bars: tuple[Condition, ...] = ()
    limit: int | None = None
    last: Part | None = None  # the part that must not come, if nothing that may come was passed behind it

    def forbidding(self, part: Part) -> _Way:
        """Passes a part that must not come."""
        if part.relation is Relation.NOT_NEXT:
            return replace(self, not_next=(*self.not_next, part.condition), last=part)
        return replace(self, not_between=(*self.not_between, part.condition), last=part)

    def leaving(self, part: Part) -> _Way:
        """Leaves a part with its elements, or leaves it out."""
        if part.is_greedy and part.least != part.most:
            return replace(self, guards=(*self.guards, part), last=None)
        return replace(self, last=None)

    def without(self, part: Part) -> _Way:
        """Passes a part of which no element is taken; what a group asks for counts if it is not left out as a whole."""
        if part.relation.forbids:
            return self.forbidding(part)
        if part.is_optional or not part.group:
            return self.leaving(part)
        way = self
        for each in part.group:
            way = way.without(each)
        return way

    def within(self, limit: int | None) -> _Way:
        """Adds a limit of time."""
        limits = [each for each in (self.limit, limit) if each is not None]
        return replace(self, limit=min(limits, default=None))


class Automaton:
    """The states of a pattern.

    Attributes:
        names: The names of the parts that have elements, by their numbers in edges.
        conditions: All conditions, by their numbers.
        start: The edges to first elements.
        has_limits: Whether an edge may end by time before the whole match does.
    """

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._leaves: list[_Item] = []
        self._root = _Item(Part(relation=Relation.BEGIN, group=parts), None)
        self._add(self._root)
        self.names: Final = [item.part.name or "" for item in self._leaves]
        self.conditions: Final = [EVERY_ELEMENT, *(each for part in parts for each in part.conditions())]
        self._numbers = {id(condition): number for number, condition in enumerate(self.conditions)}
        start = _Collector(self)
        self._walk(start, self._root, 0, (), _Way(), None, is_entry=True)
        self.start: Final = start.state()
        self.has_limits: Final = any(map(_has_limit, parts))

    def state(self, number: int) -> State:
        """Makes the state of a number."""
        rest, leaf = divmod(number, len(self._leaves))
        item = self._leaves[leaf]
        counts: list[int] = []
        for each in reversed(self._path(item)):
            rest, count = divmod(rest, each.width)
            counts.insert(0, count)
        collector = _Collector(self)
        self._after(collector, item, tuple(counts), _Way())
        return collector.state()

    def condition(self, condition: Condition) -> int:
        """Returns the number of a condition."""
        return self._numbers[id(condition)]

    def _add(self, item: _Item) -> None:
        for place, part in enumerate(item.part.group):
            child = _Item(part, item, place)
            item.items.append(child)
            if part.group:
                self._add(child)
            elif not part.relation.forbids:
                child.leaf = len(self._leaves)
                self._leaves.append(child)

    # The numbers of states

    def number(self, item: _Item, counts: tuple[int, ...]) -> int:
        """Returns the number of the state behind an element of a part, with the counts of all parts around it."""
        number = 0
        for each, count in zip(self._path(item), counts, strict=True):
            number = number * each.width + count
        return number * len(self._leaves) + item.leaf

    @staticmethod
    def _path(item: _Item) -> list[_Item]:
        """The parts around a part and itself, the outermost one first, without the root."""
        path: list[_Item] = []
        each = item
        while each.parent is not None:
            path.insert(0, each)
            each = each.parent
        return path

    # Edges

    def _after(self, to: _Collector, item: _Item, counts: tuple[int, ...], way: _Way) -> None:
        """Collects the ways on from an element or a round of a part; the last of ``counts`` is its number."""
        assert item.parent is not None
        part, count = item.part, counts[-1]
        around = self._ends_around(item.parent)
        further = item.further(count)
        if further is not None:
            again = replace(way.within(part.gap), last=None)
            for each in item.behind():
                if each.relation is Relation.NOT_FOLLOWED_BY or count >= part.least:
                    again = again.forbidding(each)
            own = () if part.until is None else (part.until,)
            again = replace(again, ends=(*around, *own), last=None)
            self._enter(to, item, (*counts[:-1], further), again, part.between)
        if count >= part.least:
            # What stood at the end of a group counts behind the group.
            left = way.leaving(part) if item.leaf >= 0 else way
            self._walk(to, item.parent, item.place + 1, counts[:-1], left, None)

    def _walk(
        self,
        to: _Collector,
        parent: _Item,
        place: int,
        counts: tuple[int, ...],
        way: _Way,
        relation: Relation | None,
        *,
        is_entry: bool = False,
    ) -> None:
        """Collects the ways into the parts of a group from a place on, and out of the group behind the last one."""
        way = replace(way, ends=self._ends_around(parent)) if not is_entry else way
        for item in parent.items[place:]:
            part = item.part
            if part.relation.forbids:
                way = way.forbidding(part)
                continue
            entering = way.within(part.within_previous)
            if part.until is not None:
                entering = replace(entering, bars=(*entering.bars, part.until))
            self._enter(to, item, (*counts, 1), replace(entering, last=None), relation or part.relation)
            if not part.may_be_empty:
                return
            way, relation = way.without(part), None
        if is_entry:
            return  # a round takes at least one element
        if parent.parent is None:
            to.end(way)
        else:
            self._after(to, parent, counts, way)

    def _enter(self, to: _Collector, item: _Item, counts: tuple[int, ...], way: _Way, relation: Relation) -> None:
        """Collects the ways to the first element of a part, or of a round of a group."""
        if item.leaf >= 0:
            to.take(item, self.number(item, counts), way, relation)
        else:
            self._walk(to, item, 0, counts, way, relation, is_entry=True)

    @staticmethod
    def _ends_around(item: _Item) -> tuple[Condition, ...]:
        """The conditions that end a part and the parts around it."""
        conditions: list[Condition] = []
        each: _Item | None = item
        while each is not None:
            if each.part.until is not None:
                conditions.append(each.part.until)
            each = each.parent
        return tuple(conditions)


def _has_limit(part: Part) -> bool:
    return part.gap is not None or part.within_previous is not None or any(map(_has_limit, part.group))


class _Collector:
    """Collects the edges of a state."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._edges: list[Edge] = []
        self._accepts = False
        self._bits = 0

    def _bit(self) -> int:
        bit = 1 << self._bits
        self._bits += 1
        return bit

    def take(self, item: _Item, number: int, way: _Way, relation: Relation) -> None:
        """Adds an edge to an element of a part."""
        self._edges.append(self._edge(way, item.part.condition, relation, item.leaf, number))

    def end(self, way: _Way) -> None:
        """Adds the end of the pattern."""
        if way.last is None:
            self._accepts = True
        else:
            by_time = way.last.relation is Relation.NOT_FOLLOWED_BY
            limit = way.last.within_previous if by_time else None
            way = replace(way, guards=(), limit=limit)
            self._edges.append(self._edge(way, EVERY_ELEMENT, Relation.NEXT, -1, None, by_time=by_time))

    def _edge(
        self,
        way: _Way,
        condition: Condition,
        relation: Relation,
        leaf: int,
        number: int | None,
        *,
        by_time: bool = False,
    ) -> Edge:
        numbers = self._automaton.condition
        guards = [
            Guard(numbers(part.condition), None if part.until is None else numbers(part.until), self._bit())
            for part in way.guards
        ]
        return Edge(
            bit=self._bit(),
            state=number,
            leaf=leaf,
            condition=numbers(condition),
            takes_next=relation is Relation.NEXT,
            takes_any=relation is Relation.FOLLOWED_BY_ANY,
            bars=tuple(map(numbers, way.bars)),
            ends=tuple(map(numbers, way.ends)),
            not_next=tuple(map(numbers, way.not_next)),
            not_between=tuple(map(numbers, way.not_between)),
            guards=tuple(guards),
            limit=way.limit,
            ends_by_time=by_time,
            is_plain=number is not None
            and not condition.sees_matched
            and not (way.bars or way.ends or way.not_next or way.not_between or guards),
        )

    def state(self) -> State:
        """Returns the state with what was collected."""
        edges = tuple(self._edges)
        limits = [edge.limit for edge in edges if edge.limit is not None]
        only = edges[0] if len(edges) == 1 and edges[0].is_plain else None
        return State(self._accepts, edges, (1 << self._bits) - 1, min(limits, default=None), only)

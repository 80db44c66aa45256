"""Finds patterns by trying every way, from the text of ``FORMAT.md``: slow, without state, and nothing is shared.

At each moment all ways of matching are found anew among the elements so far. A way is a list of places and parts; what
may follow is found by walking through the tree of the pattern, and each rule is checked by looking at all elements in
between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

from tests.patterns.building import Case, Event, meets

# Any in this module: patterns are JSON.

_LOOPS: Final = ("one_or_more", "times_or_more")
_FOREVER: Final = 1 << 70

Path: TypeAlias = tuple[int, ...]
"""The place of a part: its index in the pattern, then in the group there, and so on."""

Counts: TypeAlias = tuple[int, ...]
"""The number of elements or rounds of a part, and of each group around it, the outermost one first."""


class Step(NamedTuple):
    """An element of a way."""

    place: int
    part: Path
    counts: Counts


Way: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True)
class Rule:
    """What is asked of the elements between the last one of a way and the next one, and of that."""

    relation: str = "begin"
    part: Path = ()
    counts: Counts = ()
    not_next: tuple[Case | None, ...] = ()
    not_between: tuple[Case | None, ...] = ()
    greedy: tuple[tuple[Case | None, Case | None], ...] = ()
    stays_in: tuple[Case, ...] = ()
    enters: tuple[Case, ...] = ()
    limits: tuple[int, ...] = ()
    last_not: Case | None = None
    is_end: bool = False


class Found(NamedTuple):
    """A match, or a partial one that has timed out: the elements by part, and when."""

    parts: dict[str, list[str]]
    timestamp: int
    is_whole: bool


@dataclass
class Search:
    """A pattern that is looked for in elements in their order.

    Attributes:
        pattern: The parts, as the format has them.
        within: In milliseconds; 0 for no limit.
        skip: The skip strategy, as the format has it; None for none.
    """

    pattern: Sequence[Case]
    within: int = 0
    skip: Case | None = None
    elements: list[Event] = field(default_factory=list)
    floor: int = 0
    waiting: list[Way] = field(default_factory=list)
    timed: set[tuple[Way, int, bool]] = field(default_factory=set)

    def take(self, event: Event) -> list[Found]:
        """Takes the next element; returns what comes out."""
        found = self.advance(event.ts)
        self.elements.append(event)
        place = len(self.elements) - 1
        complete = []
        for way in self._ways(self.elements):
            if way[0].place < self.floor:
                continue
            for rule in self._rules(way):
                if not rule.is_end:
                    continue
                if rule.last_not is None:
                    complete += [way] if way[-1].place == place else []
                elif self._is_next(rule) and way[-1].place == place - 1 and event.ts < self._deadline(way, rule):
                    complete += [way] if not self._any(rule.not_next, event, way) else []
        return found + self._out(complete, event.ts)

    def advance(self, clock: int) -> list[Found]:
        """Sets the clock; returns what comes out."""
        ended = [(at, by_time, way) for way, at, by_time in self._ends(clock)]
        found = [Found(self._named(way), at, by_time) for at, by_time, way in ended if not (by_time and self.skip)]
        if not self.skip:
            return found
        self.waiting += [way for _, by_time, way in ended if by_time]
        return found + self._released(clock)

    # Time

    def _ends(self, clock: int) -> Iterator[tuple[Way, int, bool]]:
        """Yields the ways that were open and whose time is up, once for each time; whether that completes them."""
        for way in self._ways(self.elements):
            if way[0].place < self.floor:
                continue
            for rule in self._rules(way):
                at = self._deadline(way, rule)
                by_time = rule.is_end and rule.last_not is not None and rule.last_not["relation"] == "not_followed_by"
                if rule.is_end and rule.last_not is None:
                    continue
                end = (way, at, by_time)
                if at <= clock and end not in self.timed and self._is_open(way, rule, at):
                    self.timed.add(end)
                    yield end

    def _deadline(self, way: Way, rule: Rule) -> int:
        times = [self.elements[way[-1].place].ts + limit for limit in rule.limits]
        if self.within:
            times.append(self.elements[way[0].place].ts + self.within)
        return min(times, default=_FOREVER)

    def _is_open(self, way: Way, rule: Rule, before: int) -> bool:
        """Whether an element behind all those before a time might still follow by a rule."""
        last = way[-1].place
        between = [event for event in self.elements[last + 1 :] if event.ts < before]
        if between and (rule.relation == "next" or (rule.is_end and rule.last_not is not None and self._is_next(rule))):
            return False
        if between and self._any(rule.not_next, between[0], way):
            return False
        if any(self._any(rule.not_between, event, way) for event in between):
            return False
        if any(self._any(rule.stays_in, event, way) for event in between):
            return False
        if self._is_greedy_broken(rule, between, way):
            return False
        if rule.relation == "followed_by":
            condition = self._part(rule.part).get("condition")
            return not any(self._meets(condition, event, way) for event in between)
        return True

    @staticmethod
    def _is_next(rule: Rule) -> bool:
        return rule.last_not is not None and rule.last_not["relation"] == "not_next"

    # Ways

    def _ways(self, elements: Sequence[Event]) -> Iterator[Way]:
        """Yields every way to match elements to the parts from the first one on."""
        begun: list[Way] = [
            (Step(place, rule.part, rule.counts),)
            for place, event in enumerate(elements)
            for rule in self._walk((), 0, (), Rule(relation="first"), is_entry=True)
            if self._takes(rule, event, ()) and not self._is_greedy_broken(rule, [event], ())
        ]
        while begun:
            way = begun.pop()
            yield way
            for rule in self._rules(way):
                if not rule.is_end:
                    begun += [
                        (*way, Step(place, rule.part, rule.counts))
                        for place in range(way[-1].place + 1, len(elements))
                        if self._follows(way, rule, place)
                    ]

    def _follows(self, way: Way, rule: Rule, place: int) -> bool:
        """Whether the element at a place is the next one of a way by a rule."""
        last, event = way[-1].place, self.elements[place]
        between = self.elements[last + 1 : place]
        if event.ts >= self._deadline(way, rule):
            return False
        if rule.relation == "next" and between:
            return False
        if rule.relation == "followed_by":
            condition = self._part(rule.part).get("condition")
            if any(self._meets(condition, other, way) for other in between):
                return False
        if self._any(rule.not_next, self.elements[last + 1], way):
            return False
        if any(self._any(rule.not_between, other, way) for other in between):
            return False
        if any(self._any(rule.stays_in, other, way) for other in [*between, event]):
            return False
        return not self._is_greedy_broken(rule, [*between, event], way) and self._takes(rule, event, way)

    def _takes(self, rule: Rule, event: Event, way: Way) -> bool:
        condition = self._part(rule.part).get("condition")
        return self._meets(condition, event, way) and not self._any(rule.enters, event, way)

    def _is_greedy_broken(self, rule: Rule, events: Sequence[Event], way: Way) -> bool:
        for condition, until in rule.greedy:
            for event in events:
                if until is not None and self._meets(until, event, way):
                    break
                if self._meets(condition, event, way):
                    return True
        return False

    def _any(self, conditions: Sequence[Case | None], event: Event, way: Way) -> bool:
        return any(self._meets(condition, event, way) for condition in conditions)

    def _meets(self, condition: Case | None, event: Event, way: Way) -> bool:
        if condition is None:
            return True
        matched: dict[str, list[Event]] = {name: [] for name in _names(self.pattern)}
        for step in way:
            matched[self._part(step.part)["name"]].append(self.elements[step.place])
        return meets(condition, event, matched)

    # The tree of the pattern

    def _part(self, path: Path) -> Case:
        part: Case = {"group": self.pattern}
        for index in path:
            part = part["group"][index]
        return part

    def _rules(self, way: Way) -> Iterator[Rule]:
        """Yields what may follow the last element of a way."""
        return self._behind(way[-1].part, way[-1].counts, Rule())

    def _behind(self, path: Path, counts: Counts, rule: Rule) -> Iterator[Rule]:
        """Yields what may follow an element or a round of a part."""
        part = self._part(path)
        least, most = _numbers(part)
        siblings = self._part(path[:-1])["group"]
        nots: list[Case] = []
        for sibling in siblings[path[-1] + 1 :]:
            if not sibling["relation"].startswith("not"):
                break
            nots.append(sibling)
        if most is None or counts[-1] < most:
            again = rule
            for sibling in nots:
                if sibling["relation"] == "not_followed_by":
                    again = replace(again, not_between=(*again.not_between, sibling.get("condition")))
                elif counts[-1] >= least:
                    again = replace(again, not_next=(*again.not_next, sibling.get("condition")))
            gap = part.get("loop_gap_ms")
            again = replace(
                again, stays_in=tuple(self._untils(path)), limits=again.limits if gap is None else (*again.limits, gap)
            )
            yield from self._into(path, (*counts[:-1], counts[-1] + 1), again, _contiguity(part))
        if counts[-1] >= least:
            # What stood at the end of a group counts behind the group.
            left = rule if "group" in part else _left(rule, part)
            yield from self._walk(path[:-1], path[-1] + 1, counts[:-1], left, is_entry=False)

    def _walk(self, group: Path, index: int, counts: Counts, rule: Rule, *, is_entry: bool) -> Iterator[Rule]:
        """Yields what may follow from a place in a group on."""
        if not is_entry:
            rule = replace(rule, stays_in=tuple(self._untils(group)))
        entry = rule.relation if is_entry else None
        parts = self._part(group)["group"]
        for number in range(index, len(parts)):
            part = parts[number]
            if part["relation"].startswith("not"):
                rule = _left(rule, part)
                continue
            entering = rule
            if "until" in part:
                entering = replace(entering, enters=(*entering.enters, part["until"]))
            if "within_previous_ms" in part:
                entering = replace(entering, limits=(*entering.limits, part["within_previous_ms"]))
            yield from self._into((*group, number), (*counts, 1), entering, entry or part["relation"])
            if not _may_lack(part):
                return
            rule, entry = _left_out(rule, part), None
        if is_entry:
            return
        if group:
            yield from self._behind(group, counts, rule)
            return
        limit = rule.last_not and rule.last_not.get("within_previous_ms")
        yield replace(rule, is_end=True, greedy=(), relation="end", limits=() if not limit else (limit,))

    def _into(self, path: Path, counts: Counts, rule: Rule, relation: str) -> Iterator[Rule]:
        if "group" in self._part(path):
            yield from self._walk(path, 0, counts, replace(rule, relation=relation), is_entry=True)
        else:
            yield replace(rule, relation=relation, part=path, counts=counts, last_not=None)

    def _untils(self, path: Path) -> Iterator[Case]:
        for length in range(1, len(path) + 1):
            part = self._part(path[:length])
            if "until" in part:
                yield part["until"]

    # Matches

    def _out(self, complete: list[Way], clock: int) -> list[Found]:
        if not self.skip:
            return [Found(self._named(way), clock, True) for way in complete]
        self.waiting += complete
        return self._released(clock)

    def _released(self, clock: int) -> list[Found]:
        assert self.skip is not None
        found: list[Found] = []
        while self.waiting:
            match = min(self.waiting, key=_by_elements)
            if any(
                way[0].place < match[0].place and way[0].place >= self.floor and self._goes_on(way, clock)
                for way in self._ways(self.elements)
            ):
                break
            self.waiting.remove(match)
            found.append(Found(self._named(match), clock, True))
            self.floor = max(self.floor, self._target(match))
            self.waiting = [way for way in self.waiting if way[0].place >= self.floor]
        return found

    def _goes_on(self, way: Way, clock: int) -> bool:
        rules = [rule for rule in self._rules(way) if not (rule.is_end and rule.last_not is None)]
        return any(self._deadline(way, rule) > clock and self._is_open(way, rule, _FOREVER) for rule in rules)

    def _target(self, match: Way) -> int:
        assert self.skip is not None
        strategy = self.skip["strategy"]
        if strategy == "skip_to_next":
            return match[0].place + 1
        if strategy == "skip_past_last_event":
            return match[-1].place + 1
        places = [step.place for step in match if self._part(step.part)["name"] == self.skip["part"]]
        return (places[0] if strategy == "skip_to_first" else places[-1]) if places else 0

    def _named(self, way: Way) -> dict[str, list[str]]:
        parts: dict[str, list[str]] = {}
        for step in sorted(way, key=lambda step: (step.part, step.place)):
            parts.setdefault(self._part(step.part)["name"], []).append(self.elements[step.place].id)
        return parts


def _by_elements(way: Way) -> tuple[list[int], list[Path]]:
    return [step.place for step in way], [step.part for step in way]


def _left(rule: Rule, part: Case) -> Rule:
    """A part is left, or left out. What a group asks for counts if it is not left out as a whole."""
    if part["relation"].startswith("not"):
        name = "not_next" if part["relation"] == "not_next" else "not_between"
        # Any: the name of a field.
        added: Any = {name: (*getattr(rule, name), part.get("condition"))}
        return replace(rule, last_not=part, **added)
    least, most = _numbers(part)
    rule = replace(rule, last_not=None)
    if part.get("greedy") and least != most:
        return replace(rule, greedy=(*rule.greedy, (part.get("condition"), part.get("until"))))
    return rule


def _left_out(rule: Rule, part: Case) -> Rule:
    """No element of a part is taken."""
    if "group" in part and not part.get("optional") and not _from_zero(part):
        for each in part["group"]:
            rule = _left_out(rule, each)
        return rule
    return _left(rule, part)


def _numbers(part: Case) -> tuple[int, int | None]:
    if part.get("one_or_more"):
        return 1, None
    if "times_or_more" in part:
        return part["times_or_more"], None
    times = part.get("times", 1)
    least, most = times if isinstance(times, list) else (times, times)
    return max(1, least), most


def _may_lack(part: Case) -> bool:
    if part.get("optional") or _from_zero(part) or part["relation"].startswith("not"):
        return True
    return "group" in part and all(_may_lack(each) for each in part["group"])


def _from_zero(part: Case) -> bool:
    times = part.get("times", 1)
    return isinstance(times, list) and bool(times[0] == 0)


def _contiguity(part: Case) -> str:
    return "next" if part.get("consecutive") else "followed_by_any" if part.get("allow_combinations") else "followed_by"


def _names(parts: Sequence[Case]) -> Iterator[str]:
    for part in parts:
        if "group" in part:
            yield from _names(part["group"])
        else:
            yield part["name"]

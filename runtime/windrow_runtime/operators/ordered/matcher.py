"""Looks for a pattern in the elements of one key, which come in event-time order.

A partial match is a list of integers: the number of its state, a mask of the edges that are still open, the number and
the timestamp of its first element, those of its last one, and the node of its last element. Nodes are a shared buffer:
each has the node before, the part and the number of an element, so that matches with a common beginning share it. They
lie in one list of integers, three a node: state of many keys is stored as columns, and few classes make few columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from windrow.errors import UnsupportedOperationError
from windrow.patterns import AfterMatchSkipStrategy, SkipTo
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.ordered.automaton import Automaton, Edge, State

# Any in this module: elements of every type.

_STATE: Final = 0
_MASK: Final = 1
_FIRST: Final = 2
_FIRST_TIME: Final = 3
_LAST: Final = 4
_LAST_TIME: Final = 5
_NODE: Final = 6

_Run: TypeAlias = list[int]

_RUNS: Final = "runs"
_NODES: Final = "nodes"
_ELEMENTS: Final = "elements"
"""The names under which the state of a key has them."""

_HEAD: Final = 4
_RUN: Final = 7
_MATCH: Final = 3

_NEVER: Final = MAX_TIMESTAMP

_SLACK: Final = 48
"""How many integers of nodes beside twice the needed ones are kept until those that nothing needs are removed."""


class Match(NamedTuple):
    """A match, or a partial one that has timed out.

    Attributes:
        parts: The elements by the names of the parts that have some.
        timestamp: The time of its release, or when its time was up.
        is_whole: Whether it is a match.
    """

    parts: dict[str, list[Any]]
    timestamp: int
    is_whole: bool


class Mark(NamedTuple):
    """The state of a matcher before it takes an element."""

    runs: list[list[int]]
    masks: list[int]
    waiting: list[list[int]]
    nodes: int
    next_element: int
    due: int


class _States(dict[int, State]):
    """A cache of the states of an automaton; a missing one is computed."""

    def __init__(self, automaton: Automaton) -> None:
        super().__init__()
        self._automaton = automaton

    def __missing__(self, number: int) -> State:
        state = self[number] = self._automaton.state(number)
        return state


class Matcher:
    """Looks for a pattern. It is bound to the state of a key, given its elements in order, and told the time.

    Args:
        automaton: The states of the pattern.
        within: The time in which a whole match lies, in milliseconds; None: no limit.
        skip: What becomes of other matches.
        emit: Takes matches and partial matches that time out.
        gives_copies: Whether conditions that see matched elements get copies of them.
    """

    def __init__(
        self,
        automaton: Automaton,
        within: int | None,
        skip: AfterMatchSkipStrategy,
        emit: Callable[[Match], None],
        *,
        gives_copies: bool = False,
    ) -> None:
        self._automaton = automaton
        self._states = _States(automaton)
        self._start = automaton.start.edges
        self._within = within
        self._skip = skip
        self._skips = skip.to is not SkipTo.NOTHING
        self._emit = emit
        self._gives_copies = gives_copies
        self._value: Any = None
        self._known: list[bool | None] = []
        self._blank: list[bool | None] = [None] * len(automaton.conditions)
        self._runs: list[_Run] = []
        self._waiting: list[list[int]] = []  # complete matches: first element, last element, node
        self._nodes: list[int] = []
        self._elements: dict[int, Any] = {}
        self._next_element = self._needed = 0
        self._due = _NEVER  # no time of a partial match is up before

    # State

    def load(self, cells: dict[str, Any]) -> None:
        """Goes on from the stored state of a key."""
        stored: list[int] | None = cells.get(_RUNS)
        if stored is None:
            self._runs, self._waiting, self._nodes, self._elements = [], [], [], {}
            self._next_element = self._needed = 0
            self._due = _NEVER
        else:
            self._next_element, self._needed, self._due, complete = stored[:_HEAD]
            first = _HEAD + _MATCH * complete
            self._waiting = [stored[each : each + _MATCH] for each in range(_HEAD, first, _MATCH)]
            self._runs = [stored[each : each + _RUN] for each in range(first, len(stored), _RUN)]
            self._nodes, self._elements = cells[_NODES], cells[_ELEMENTS]

    def store(self, cells: dict[str, Any]) -> None:
        """Stores the state of a key, without what no partial match needs."""
        if self._runs or self._waiting:
            if len(self._nodes) > 2 * self._needed + _SLACK:
                self._prune()
            stored = [self._next_element, self._needed, self._due, len(self._waiting)]
            for each in (*self._waiting, *self._runs):
                stored += each
            cells[_RUNS], cells[_NODES], cells[_ELEMENTS] = stored, self._nodes, self._elements
        elif _RUNS in cells:
            del cells[_RUNS], cells[_NODES], cells[_ELEMENTS]

    def _prune(self) -> None:
        """Removes the nodes and elements that no partial match has, and numbers the nodes anew."""
        nodes, kept = self._nodes, {-1: -1}
        needed: set[int] = set()
        for last in (*(run[_NODE] for run in self._runs), *(match[2] for match in self._waiting)):
            node = last
            while node >= 0 and node not in needed:
                needed.add(node)
                node = nodes[node]
        compact: list[int] = []
        # A node comes behind the one before it.
        for node in sorted(needed):
            kept[node] = len(compact)
            compact += (kept[nodes[node]], nodes[node + 1], nodes[node + 2])
        for run in self._runs:
            run[_NODE] = kept[run[_NODE]]
        for match in self._waiting:
            match[2] = kept[match[2]]
        elements = set(compact[2::3])
        self._nodes = compact
        self._elements = {number: value for number, value in self._elements.items() if number in elements}
        self._needed = len(compact)

    def due(self) -> int | None:
        """Returns when the time of a partial match may be up; None: never."""
        return self._due if self._runs and self._due < _NEVER else None

    def mark(self) -> Mark:
        """Notes the state before an element is taken, so that the element can be forgotten."""
        runs = list(self._runs)
        masks = [run[_MASK] for run in runs]
        return Mark(runs, masks, list(self._waiting), len(self._nodes), self._next_element, self._due)

    def back_to(self, mark: Mark) -> None:
        """Forgets the element that was taken after a mark."""
        self._runs, masks, self._waiting, nodes, self._next_element, self._due = mark
        for run, mask in zip(self._runs, masks, strict=True):
            run[_MASK] = mask
        del self._nodes[nodes:]
        self._elements.pop(self._next_element, None)

    # Elements

    def element(self, value: Any, timestamp: int) -> None:
        """Takes the next element of the key."""
        if timestamp >= self._due:
            self.advance(timestamp)
        number = self._next_element
        self._next_element = number + 1
        self._value = value
        self._known = known = self._blank.copy()
        going: list[_Run] = []
        for run in self._runs:
            # A state with one plain edge is by far the most frequent.
            only = self._states[run[_STATE]].only
            if only is None:
                self._try(run, number, timestamp, going)
                continue
            condition = only.condition
            meets = known[condition]
            if meets is None:
                meets = self._meets(condition, run)
            if meets:
                self._take(only, run, number, timestamp, going)
                if only.takes_any:
                    going.append(run)
            elif not only.takes_next:
                going.append(run)
        self._runs = going
        for edge in self._start:
            meets = known[edge.condition]
            if meets is None:
                meets = self._meets(edge.condition, None)
            if meets and (edge.is_plain or self._may_begin(edge)):
                self._take(edge, None, number, timestamp, going)
        if self._waiting:
            self._release(timestamp)

    def _try(self, run: _Run, number: int, timestamp: int, going: list[_Run]) -> None:
        """Looks at an element for a partial match, and notes what goes on: the match itself, and those with it."""
        mask, is_open = run[_MASK], False
        for edge in self._states[run[_STATE]].edges:
            if not mask & edge.bit:
                continue
            if edge.is_plain:
                takes = self._meets(edge.condition, run)
                stays = edge.takes_any or not (takes or edge.takes_next)
            elif edge.state is None:
                takes, stays = False, self._ends(edge, run, number, timestamp)
            else:
                takes, stays = self._looked_at(edge, run, number)
            if takes:
                self._take(edge, run, number, timestamp, going)
            if stays:
                is_open = True
            else:
                run[_MASK] &= ~edge.bit
        if is_open:
            going.append(run)

    def _ends(self, edge: Edge, run: _Run, number: int, timestamp: int) -> bool:
        """Looks at an element behind the last part; returns whether the end of the pattern is still open."""
        meets = self._meets
        if run[_LAST] == number - 1 and any(meets(each, run) for each in edge.not_next):
            return False
        if not edge.ends_by_time:
            self._complete(run[_FIRST], run[_LAST], run[_NODE], timestamp)
            return False
        return not any(meets(each, run) for each in edge.not_between)

    def _looked_at(self, edge: Edge, run: _Run, number: int) -> tuple[bool, bool]:
        """Returns whether an edge takes the element, and whether it stays open."""
        meets = self._meets
        for guard in edge.guards:
            if run[_MASK] & guard.bit:
                if guard.until is not None and meets(guard.until, run):
                    run[_MASK] &= ~guard.bit
                elif meets(guard.condition, run):
                    return False, False
        if any(meets(each, run) for each in edge.ends):
            return False, False
        if run[_LAST] == number - 1 and any(meets(each, run) for each in edge.not_next):
            return False, False
        wants = meets(edge.condition, run)
        takes = wants and not any(meets(each, run) for each in edge.bars)
        stays = edge.takes_any or not (wants or edge.takes_next)
        if stays and edge.not_between and any(meets(each, run) for each in edge.not_between):
            stays = False
        return takes, stays

    def _may_begin(self, edge: Edge) -> bool:
        if any(self._meets(each, None) for each in edge.bars):
            return False
        return not any(
            self._meets(guard.condition, None)
            for guard in edge.guards
            if guard.until is None or not self._meets(guard.until, None)
        )

    def _take(self, edge: Edge, run: _Run | None, number: int, timestamp: int, going: list[_Run]) -> None:
        """Makes the partial match that has the element, too."""
        assert edge.state is not None
        state = self._states[edge.state]
        node = len(self._nodes)
        self._elements[number] = self._value
        if run is None:
            first, first_time, before = number, timestamp, -1
        else:
            first, first_time, before = run[_FIRST], run[_FIRST_TIME], run[_NODE]
        self._nodes += (before, edge.leaf, number)
        if state.edges:
            going.append([edge.state, state.mask, first, first_time, number, timestamp, node])
            if self._within is not None:
                self._due = min(self._due, first_time + self._within)
            if state.limit is not None:
                self._due = min(self._due, timestamp + state.limit)
        if state.accepts:
            self._complete(first, number, node, timestamp)

    def _meets(self, condition: int, run: _Run | None) -> bool:
        known = self._known[condition]
        if known is None:
            each = self._automaton.conditions[condition]
            if each.function is None:
                known = True
            elif each.sees_matched:
                # It depends on the match, and is asked again for the next one.
                matched: dict[str, list[Any]] = {name: [] for name in self._automaton.names}
                if run is not None:
                    matched.update(self._parts(run[_NODE]))
                return bool(each.function(self._value, own(matched) if self._gives_copies else matched))
            else:
                known = bool(each.function(self._value))
            self._known[condition] = known
        return known

    def _parts(self, node: int) -> dict[str, list[Any]]:
        """Returns the elements of a partial match by part, the parts in their order."""
        by_leaf: dict[int, list[Any]] = {}
        while node >= 0:
            node, leaf, number = self._nodes[node : node + 3]
            by_leaf.setdefault(leaf, []).append(self._elements[number])
        names = self._automaton.names
        return {names[leaf]: by_leaf[leaf][::-1] for leaf in sorted(by_leaf)}

    # Time

    def advance(self, clock: int) -> None:
        """Sets the clock, and ends the partial matches that are out of time."""
        if clock < self._due or not self._runs:
            return
        runs, self._runs = self._runs, []
        ended: list[tuple[int, bool, _Run]] = []
        self._due = _NEVER
        for run in runs:
            ends = self._ended_edges(run, clock)
            ended += [(end, by_time, run) for end, by_time in ends]
        for end, by_time, run in sorted(ended, key=_by_end):
            if not by_time:
                self._emit(Match(self._parts(run[_NODE]), end, is_whole=False))
            elif self._skips:
                self._waiting.append([run[_FIRST], run[_LAST], run[_NODE]])
            else:
                self._emit(Match(self._parts(run[_NODE]), end, is_whole=True))
        if self._waiting:
            self._release(clock)

    def _ended_edges(self, run: _Run, clock: int) -> list[tuple[int, bool]]:
        """Closes the edges whose time is up, and keeps the partial match if others are open.

        Returns:
            When each kind of edge ended, and whether the match is complete by that; each once.
        """
        whole = None if self._within is None else run[_FIRST_TIME] + self._within
        ends: set[tuple[int, bool]] = set()
        earliest, is_open = _NEVER, False
        for edge in self._states[run[_STATE]].edges:
            if run[_MASK] & edge.bit:
                end = whole
                if edge.limit is not None:
                    limit = run[_LAST_TIME] + edge.limit
                    end = limit if whole is None else min(whole, limit)
                if end is not None and end <= clock:
                    ends.add((end, edge.ends_by_time))
                    run[_MASK] &= ~edge.bit
                else:
                    # What has no limit stays open at the end of the stream, too.
                    earliest = earliest if end is None else min(earliest, end)
                    is_open = True
        if is_open:
            self._runs.append(run)
            self._due = min(self._due, earliest)
        return sorted(ends)

    # Matches

    def _complete(self, first: int, last: int, node: int, timestamp: int) -> None:
        if self._skips:
            self._waiting.append([first, last, node])
        else:
            self._emit(Match(self._parts(node), timestamp, is_whole=True))

    def _release(self, clock: int) -> None:
        """Emits complete matches in the order of their first elements, as long as none that began earlier is open."""
        while self._waiting:
            first = min(match[0] for match in self._waiting)
            if any(run[_FIRST] < first for run in self._runs):
                return
            alike = [match for match in self._waiting if match[0] == first]
            match = alike[0] if len(alike) == 1 else min(alike, key=self._earliest)
            self._waiting.remove(match)
            self._emit(Match(self._parts(match[2]), clock, is_whole=True))
            keeps = self._kept_from(match)
            self._runs = [run for run in self._runs if run[_FIRST] >= keeps]
            self._waiting = [each for each in self._waiting if each[0] >= keeps]

    def _earliest(self, match: list[int]) -> tuple[list[int], list[int]]:
        """Compares matches by their elements, then by the parts of these."""
        path = self._path(match[2])
        return [number for number, _ in path], [leaf for _, leaf in path]

    def _path(self, node: int) -> list[tuple[int, int]]:
        """Returns the numbers of the elements of a match, and their parts."""
        path: list[tuple[int, int]] = []
        while node >= 0:
            node, leaf, number = self._nodes[node : node + 3]
            path.append((number, leaf))
        return path[::-1]

    def _kept_from(self, match: list[int]) -> int:
        """Returns the first element at which other matches may begin after a match."""
        first, last, node = match
        to = self._skip.to
        if to is SkipTo.NEXT:
            return first + 1
        if to is SkipTo.PAST_LAST_EVENT:
            return last + 1
        names = self._automaton.names
        numbers = [number for number, leaf in self._path(node) if names[leaf] == self._skip.part]
        target = None if not numbers else numbers[0] if to is SkipTo.FIRST else numbers[-1]
        if self._skip.throws_on_miss and target in {None, first}:
            raise UnsupportedOperationError(
                "the skip strategy finds nowhere to skip to",
                given=f"a match {'that begins with' if target == first else 'without'} the part {self._skip.part!r}",
                expected="an element of that part behind the first element of each match",
                hint="leave throw_exception_on_miss() out: nothing is dropped then",
            )
        return MIN_TIMESTAMP if target is None else target


def _by_end(entry: tuple[int, bool, _Run]) -> int:
    return entry[0]

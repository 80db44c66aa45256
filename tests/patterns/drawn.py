"""``python -m tests.patterns.drawn --cases 2000 --seed 1``: random patterns, against the search of every way.

The operator gets elements out of order, late ones, several keys, and snapshots, restored in the middle of matches.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Final

from tests.conformance.cases import Case as FormatCase
from tests.conformance.cases import Fields
from tests.conformance.engines import Engine
from tests.conformance.local_engine import LocalEngine
from tests.conformance.runner import Outcome
from tests.patterns.brute import Found, Search
from tests.patterns.building import Case, Event
from tests.patterns.cases import run_cases
from windrow.errors import WindrowError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_WANTED: Final = ("a", "a", "b", "b", "c", "x")
"""The types that conditions ask for."""

_TYPES: Final = ("a", "a", "b", "b", "b", "c", "c", "x")
"""The types of elements."""


class Drawing:
    """Draws cases by a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._named = 0
        self._earlier: list[str] = []

    def case(self, number: int) -> Case:
        """Draws a case, with what is expected of each step."""
        chance = self._chance
        self._named, self._earlier = 0, []
        case: Case = {"name": f"drawn {number}", "pattern": self._parts(chance.choice((1, 2, 2, 3, 3, 4)), 0)}
        ends_by_time = case["pattern"][-1]["relation"] == "not_followed_by"
        if ends_by_time or chance.random() < 0.4:
            case["within_ms"] = max(chance.randrange(3, 14), *_times(case["pattern"]))
        if chance.random() < 0.3:
            case["skip"] = self._skip()
        if chance.random() < 0.5:
            case["timeout_output"] = "skip" not in case
        case["late_output"] = chance.random() < 0.5
        case["steps"] = list(self._steps())
        _expect(case)
        return case

    def _parts(self, count: int, depth: int) -> list[Case]:
        chance = self._chance
        parts: list[Case] = []
        while len(parts) < count:
            relation = chance.choice(("next", "followed_by", "followed_by", "followed_by_any")) if parts else "begin"
            is_behind_optional = bool(parts) and (parts[-1].get("optional") or _from_zero(parts[-1]))
            if parts and chance.random() < 0.3 and not is_behind_optional:
                negation = chance.choice(("not_next", "not_followed_by"))
                # What does not come before the end of a group has no time there.
                if depth == 0 or len(parts) + 1 < count or negation == "not_next":
                    parts.append({"name": self._name(), "relation": negation, "condition": self._condition()})
                    continue
            if depth < 2 and chance.random() < 0.15:
                part: Case = {"relation": relation, "group": self._parts(chance.choice((1, 2, 2)), depth + 1)}
            else:
                part = {"name": self._name(), "relation": relation, "condition": self._condition()}
                self._earlier.append(part["name"])
            self._quantify(part, parts)
            parts.append(part)
        return parts

    def _quantify(self, part: Case, before: list[Case]) -> None:
        chance, is_group = self._chance, "group" in part
        kind = chance.choice(("one", "one", "one", "loop", "times", "range", "least"))
        # A loop of a group that can be matched by nothing says nothing.
        if is_group and all(each.get("optional") or _from_zero(each) for each in part["group"]):
            kind = "one"
        if kind == "loop":
            part["one_or_more"] = True
        elif kind == "times":
            part["times"] = chance.randrange(1, 4)
        elif kind == "range":
            least = chance.randrange(0, 3)
            part["times"] = [least, least + chance.randrange(1, 3)]
        elif kind == "least":
            part["times_or_more"] = chance.randrange(1, 3)
        is_behind_greedy = bool(before) and before[-1].get("greedy", False)
        if chance.random() < 0.2 and not is_behind_greedy and not _from_zero(part):
            part["optional"] = True
        if kind == "one":
            if before and chance.random() < 0.1:
                part["within_previous_ms"] = chance.randrange(2, 8)
            return
        contiguity = chance.choice((None, None, "consecutive", "allow_combinations"))
        if contiguity:
            part[contiguity] = True
        if not is_group and contiguity != "allow_combinations" and chance.random() < 0.3:
            part["greedy"] = True
        if kind in {"loop", "least"} and chance.random() < 0.3:
            part["until"] = self._condition()
        if chance.random() < 0.1:
            part["loop_gap_ms"] = chance.randrange(2, 6)

    def _name(self) -> str:
        self._named += 1
        return "pqrstuvwyzABCDEF"[self._named - 1]

    def _condition(self) -> Case:
        chance = self._chance
        draw = chance.random()
        of_type: Case = {"field": "type", "eq": chance.choice(_WANTED)}
        if draw < 0.55:
            return of_type
        if draw < 0.75:
            return {"or": [of_type, {"field": "type", "eq": chance.choice(_WANTED)}]}
        if draw < 0.85 and self._earlier:
            compared = chance.choice(("gt_last_of", "le_first_of"))
            return {"or": [of_type, {"field": "value", compared: chance.choice(self._earlier)}]}
        if draw < 0.9 and self._earlier:
            return {"sum_of": chance.choice(self._earlier), "field": "value", "lt": 9, "with_this": True}
        return {"field": "value", chance.choice(("ge", "lt")): chance.randrange(2, 9)}

    def _skip(self) -> Case:
        strategy = self._chance.choice(("skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last"))
        if strategy in {"skip_to_first", "skip_to_last"}:
            return {"strategy": strategy, "part": self._chance.choice(self._earlier)}
        return {"strategy": strategy}

    def _steps(self) -> Sequence[Case]:
        chance = self._chance
        steps: list[Case] = []
        time = watermark = 0
        for number in range(chance.randrange(7, 12)):
            time += chance.choice((0, 1, 1, 2, 3))
            timestamp = time - chance.choice((0, 0, 0, 1, 3))
            letter = chance.choice(_TYPES)
            key = "k" if chance.random() < 0.9 else "m"
            value = chance.randrange(10)
            steps.append(
                {
                    "op": "element",
                    "id": f"{letter}{number}",
                    "key": key,
                    "type": letter,
                    "value": value,
                    "ts": timestamp,
                }
            )
            if chance.random() < 0.4:
                watermark = max(watermark, time - chance.choice((0, 1, 2)))
                steps.append({"op": "watermark", "ts": watermark})
            if chance.random() < 0.15:
                steps.append({"op": "snapshot_restore"})
        if chance.random() < 0.2:
            return [*steps, {"op": "watermark", "ts": MAX_TIMESTAMP}]
        return [*steps, {"op": "watermark", "ts": time + 1}, {"op": "watermark", "ts": time + 40}]


def _from_zero(part: Case) -> bool:
    times = part.get("times")
    return isinstance(times, list) and times[0] == 0


def _times(parts: Sequence[Case]) -> Sequence[int]:
    """The times between elements, of which none is longer than that of the match; zero if there is none."""
    own = [part[name] for part in parts for name in ("within_previous_ms", "loop_gap_ms") if name in part]
    return [0, *own, *(time for part in parts for time in _times(part.get("group", ())))]


def _expect(case: Case) -> None:
    """Adds what every step of a case is to cause."""
    searches: dict[str, Search] = {}
    waiting: defaultdict[str, list[Event]] = defaultdict(list)
    watermark = MIN_TIMESTAMP
    for step in case["steps"]:
        expect: Case = {}
        if step["op"] == "element":
            event = Event(*(step[name] for name in Event._fields))
            if event.ts > watermark:
                waiting[event.key].append(event)
            elif case["late_output"]:
                expect["late"] = [{"id": event.id, "key": event.key, "ts": event.ts}]
            else:
                expect["dropped"] = 1
        elif step["op"] == "watermark" and step["ts"] > watermark:
            watermark = step["ts"]
            for key, events in waiting.items():
                search = searches.setdefault(key, Search(case["pattern"], case.get("within_ms", 0), case.get("skip")))
                due = sorted((event for event in events if event.ts <= watermark), key=_time)
                waiting[key] = [event for event in events if event.ts > watermark]
                found = [each for event in due for each in search.take(event)] + search.advance(watermark)
                _note(expect, key, found, tells_timed_out=case.get("timeout_output", False))
        if expect:
            step["expect"] = expect


def _time(event: Event) -> int:
    return event.ts


def _note(expect: Case, key: str, found: Sequence[Found], *, tells_timed_out: bool) -> None:
    for each in found:
        entry = {"key": key, "match": each.parts, "ts": each.timestamp}
        if each.is_whole:
            expect.setdefault("matches", []).append(entry)
        elif tells_timed_out:
            expect.setdefault("timed_out", []).append(entry)


def run(count: int, seed: int, engine: Engine) -> tuple[list[Outcome], int, list[Case]]:
    """Runs drawn cases; returns how they went, how many matches there were, and the cases that differed."""
    drawing = Drawing(seed)
    drawn = [drawing.case(number) for number in range(count)]
    outcomes = run_cases([FormatCase.of("drawn", 0, Fields(case, "case")) for case in drawn], engine)
    matches = sum(len(step.get("expect", {}).get("matches", ())) for case in drawn for step in case["steps"])
    return outcomes, matches, [case for case, each in zip(drawn, outcomes, strict=True) if not each.passed]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; 1 if a case differed."""
    import json

    parser = argparse.ArgumentParser(prog="python -m tests.patterns.drawn", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        outcomes, matches, differing = run(options.cases, options.seed, LocalEngine())
    except WindrowError as error:
        print(error)
        return 1
    for outcome, case in zip([each for each in outcomes if not each.passed], differing, strict=True):
        print(json.dumps(case), *outcome.differences, "", sep="\n")
    print(f"{len(outcomes)} patterns with {matches} matches, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

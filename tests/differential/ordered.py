"""Random patterns, and elements in event-time order."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.differential import functions as f
from tests.differential.drawn import LATE
from tests.spark.comparison import Event, Outputs, millis
from windrow import DataStream, KeyedStream, OutputTag
from windrow.patterns import AfterMatchSkipStrategy, Pattern

# Any in this module: what steps make of elements.

_TIMED_OUT: Final = OutputTag("timed out", dict[str, list[Event]])


def ordered_step(
    chance: random.Random, keyed: KeyedStream[Event, Any], name: str, outputs: Outputs
) -> DataStream[tuple[Any, ...]]:
    """Put a step behind a stream whose keys are those of the elements; gives what it puts out, which begins with a key.

    Args:
        chance: Draws.
        keyed: The stream.
        name: Names the step, and begins the names of outputs.
        outputs: Takes side outputs.
    """
    late = LATE if chance.random() < 0.5 else None
    if chance.random() < 0.4:
        ordered = keyed.in_event_time_order(late=late, name=f"{name} sorted")
        if late is not None:
            outputs.add(f"{name} late", ordered.get_side_output(late), f.event_key)
        return ordered.reduce(f.joined, name=name).map(_told)
    timed_out = _TIMED_OUT if chance.random() < 0.5 else None
    matches = keyed.pattern(_pattern(chance), skip=_skip(chance), late=late, timed_out=timed_out).apply(
        _match, name=name
    )
    if late is not None:
        outputs.add(f"{name} late", matches.get_side_output(late), f.event_key)
    if timed_out is not None:
        outputs.add(f"{name} timed out", matches.get_side_output(timed_out).map(_match))
    return matches


def _told(event: Event) -> tuple[Any, ...]:
    return event.key, event.at, event.value


def _match(match: dict[str, list[Event]]) -> tuple[Any, ...]:
    key = next(iter(match.values()))[0].key
    return key, *((name, [event.value for event in events]) for name, events in match.items())


def _pattern(chance: random.Random) -> Pattern[Event]:
    parts = [chance.randrange(2, 4) for _ in range(3)]
    pattern = Pattern[Event].begin("a", lambda event: event.value % parts[0] == 0)
    relation = chance.choice((pattern.next, pattern.followed_by, pattern.followed_by_any))
    pattern = relation("b", lambda event: event.value % parts[1] == 1)
    if chance.random() < 0.4:
        pattern = pattern.times(1, 3)
        pattern = pattern.greedy() if chance.random() < 0.5 else pattern.consecutive()
    if chance.random() < 0.3:
        pattern = pattern.not_followed_by("n", lambda event: event.value % 7 == 0)
    if chance.random() < 0.5:
        pattern = pattern.followed_by("c", lambda event, matched: event.value > matched["a"][0].value)
        pattern = pattern.optional() if chance.random() < 0.3 and not _is_greedy(pattern) else pattern
    return pattern.within(millis(chance.randrange(5, 80)))


def _is_greedy(pattern: Pattern[Event]) -> bool:
    return any(part.is_greedy for part in pattern.parts)


def _skip(chance: random.Random) -> AfterMatchSkipStrategy:
    return chance.choice(
        (
            AfterMatchSkipStrategy.no_skip(),
            AfterMatchSkipStrategy.skip_to_next(),
            AfterMatchSkipStrategy.skip_past_last_event(),
            AfterMatchSkipStrategy.skip_to_last("b"),
        )
    )

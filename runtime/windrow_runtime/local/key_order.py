"""Processes the keys of a round in another order, one key after the other, as Spark may do with the keys of a batch.

On Spark a batch runs a keyed step key group by key group: timers and elements of one group come before those of the
next one, in an order that nobody chooses. The interpreter fires the timers of all keys in order of time, and then
processes elements in order of arrival. A test whose result depends on that fails on Spark some day.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from windrow.errors import InvalidArgumentError
from windrow.rows.equality import as_keys
from windrow_runtime.operators.state.model import OperatorState, TimerQueue

# Any in this module: elements of every type.


class Keyed(NamedTuple):
    """Elements of a keyed step."""

    keys: list[Hashable]
    values: list[Any]
    timestamps: list[int | None]


class KeyOrder:
    """Chooses the order of keys in each round, by a seed; keys are known by their hashes.

    All steps of a round have the same order, so that a second step does not put back what the first one has changed.
    """

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._places: dict[int, float] = {}

    @staticmethod
    def of(seed: int | None) -> KeyOrder | None:
        """Makes the order for a seed; None: keys stay in their order.

        Raises:
            InvalidArgumentError: If the seed is no integer.
        """
        if seed is None:
            return None
        if type(seed) is not int:
            raise InvalidArgumentError(
                "the order of keys comes from a seed", given=seed, expected="shuffles_keys=1, or another int"
            )
        return KeyOrder(seed)

    def begin_round(self) -> None:
        """Forget the order of the last round."""
        self._places = {}

    def shuffled(self, hashes: Iterable[int], *, must_differ: bool) -> list[int]:
        """Returns keys in the order of this round, which ``must_differ`` from the order in which they are given."""
        keys = list(hashes)
        is_new = not any(each in self._places for each in keys)
        for each in keys:
            self._places.setdefault(each, self._chance.random())
        ordered = sorted(keys, key=self._places.__getitem__)
        if ordered == keys and must_differ and is_new:
            ordered.reverse()
            places = sorted(self._places[each] for each in keys)
            self._places.update(zip(ordered, places, strict=True))
        return ordered


def by_key(batches: Iterable[tuple[list[Hashable], list[Any], list[int | None]]]) -> dict[int, Keyed]:
    """Returns elements by the hashes of their keys, those of each key in their order."""
    elements: dict[int, Keyed] = {}
    for keys, values, timestamps in batches:
        for key, value, timestamp in zip(as_keys(keys), values, timestamps, strict=True):
            of_key = elements.setdefault(hash(key), Keyed([], [], []))
            of_key.keys.append(key)
            of_key.values.append(value)
            of_key.timestamps.append(timestamp)
    return elements


def due_keys(timers: TimerQueue, until: int) -> Iterator[int]:
    """Yields the hashes of keys with timers at or before a time, the earliest timer first."""
    due = sorted((time, number, hash(key)) for number, (key, _, time) in enumerate(timers) if time <= until)
    return (each for _, _, each in due)


@contextmanager
def one_by_one(state: OperatorState, hashes: Iterable[int]) -> Iterator[Callable[[int], None]]:
    """Yields a function that leaves only the timers of one key in a state, until all are put back after the block."""
    names = ("event_timers", "processing_timers")
    apart = {name: _by_key(getattr(state, name), hashes) for name in names}
    at: int | None = None

    def put_away() -> None:
        for name in names:
            apart[name][at] = getattr(state, name)

    def turn_to(each: int) -> None:
        nonlocal at
        put_away()
        at = each
        for name in names:
            setattr(state, name, apart[name][each])

    for name in names:
        setattr(state, name, apart[name][None])
    try:
        yield turn_to
    finally:
        put_away()
        for name in names:
            setattr(state, name, TimerQueue([timer for timers in apart[name].values() for timer in timers]))


def _by_key(timers: TimerQueue, hashes: Iterable[int]) -> dict[int | None, TimerQueue]:
    lists: Mapping[int | None, list[tuple[Hashable, Any, int]]] = {each: [] for each in (None, *hashes)}
    for timer in timers:
        of_key = hash(timer[0])
        lists[of_key if of_key in lists else None].append(timer)
    return {each: TimerQueue(timers_of_key) for each, timers_of_key in lists.items()}

"""Random steps that leave out repeated elements, keep a state by a function, or fail under a policy, and windows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tests.differential import functions as f
from tests.differential.drawn import offset
from tests.spark.comparison import Event, Outputs, millis
from windrow import DataStream, KeyedStream, OutputTag
from windrow.failures import Failed
from windrow.windows import CalendarWindows, CumulativeEventTimeWindows, WindowAssigner

# Any in this module: keys of every type.

_FAILED: Final = OutputTag("failed", Failed[Event])
_MOST_STEPS: Final = 12


def keyed_step(chance: random.Random, keyed: KeyedStream[Event, Any], name: str) -> DataStream[Event]:
    """A step that passes on some elements of each key, or has a state of them."""
    within = millis(chance.randrange(1, 120))
    modulus = chance.randrange(2, 6)
    steps: list[Callable[[], DataStream[Event]]] = [
        lambda: keyed.distinct(partial(_remainder, modulus), within=within, name=name),
        lambda: keyed.first(within=within, name=name),
        lambda: keyed.on_change(partial(_remainder, modulus), name=name),
        lambda: keyed.stateful_map(int, _counted, name=name),
        lambda: keyed.stateful_flat_map(int, partial(_every, modulus), name=name),
        lambda: keyed.latest(name=name).changelog(_withdrawn),
    ]
    return chance.choice(steps)()


def _remainder(modulus: int, event: Event) -> int:
    return event.value % modulus


def _counted(state: int, event: Event) -> tuple[int, Event]:
    return state + 1, replace(event, value=event.value + state)


def _every(modulus: int, state: int, event: Event) -> tuple[int, list[Event]]:
    return state + event.value, [event] * (state % modulus == 0)


def _withdrawn(kind: Any, event: Event) -> Event:
    return replace(event, value=-event.value) if kind.is_withdrawal else event


def failing(chance: random.Random, stream: DataStream[Event], name: str, outputs: Outputs) -> DataStream[Event]:
    """A function that raises for some elements, which are dropped, or go to an output."""
    function = partial(_refusing, chance.randrange(2, 7))
    if chance.random() < 0.5:
        return stream.map(function, on_error="drop", name=f"{name} failing")
    taken = stream.map(function, on_error=_FAILED, name=f"{name} failing")
    outputs.add(f"{name} failed", taken.get_side_output(_FAILED).map(_told), f.event_key)
    return taken


def _refusing(modulus: int, event: Event) -> Event:
    if event.value % modulus == 0:
        raise ValueError(f"{event.value} is refused")
    return event


def _told(failed: Failed[Event]) -> Event:
    return replace(failed.element, value=len(failed.error))


def assigner(chance: random.Random) -> WindowAssigner[Event, Any]:
    """Windows that build up, or those of the calendar."""
    if chance.random() < 0.2:
        return CalendarWindows.hours("Australia/Lord_Howe")
    step = chance.randrange(5, 60)
    size = step * chance.randrange(1, _MOST_STEPS)
    return CumulativeEventTimeWindows.of(max_size=millis(size), step=millis(step), offset=offset(chance, size))

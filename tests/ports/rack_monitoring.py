"""Flink CEP's cep-monitoring: two hot readings of a rack are a warning, two warnings that rise an alarm."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from tests.ports.answer import Answer
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow.patterns import Pattern
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource

THRESHOLD = 100.0


class Temperature(NamedTuple):
    rack: int
    at: int
    degrees: float


class Power(NamedTuple):
    rack: int
    at: int
    voltage: float


class Hot(NamedTuple):
    first: Temperature
    second: Temperature


class Warned(NamedTuple):
    rack: int
    at: int
    mean: float


class Rising(NamedTuple):
    first: Warned
    second: Warned


class Alarm(NamedTuple):
    rack: int
    at: int


Event = Temperature | Power


def is_hot(event: Event) -> bool:
    return isinstance(event, Temperature) and event.degrees >= THRESHOLD


HOT = Pattern[Event].begin("first", is_hot).next("second", is_hot).within(timedelta(seconds=10))
RISING = (
    Pattern[Warned]
    .begin("first")
    .next("second", lambda warning, matched: warning.mean > matched["first"][0].mean)
    .within(timedelta(seconds=20))
)

rng = random.Random(21)
EVENTS: list[Event] = []
for n in range(160):
    rack, at = rng.randrange(3), n * 1_500 + rng.randrange(1_000)
    if rng.random() < 0.75:
        EVENTS.append(Temperature(rack, at, float(rng.randrange(90, 130))))
    else:
        EVENTS.append(Power(rack, at, float(rng.randrange(80, 120))))
ARRIVING = sorted(EVENTS, key=lambda event: event.at + rng.randrange(3_000))
events: DataStream[Event] = from_source(CollectionSource(ARRIVING, batch_size=40)).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=3)), timestamp=lambda event: event.at
)
warnings = (
    events.key_by(lambda event: event.rack)
    .pattern(HOT)
    .select(Hot, name="hot")
    .map(lambda hot: Warned(hot.second.rack, hot.second.at, (hot.first.degrees + hot.second.degrees) / 2))
)
alarms = (
    warnings.key_by(lambda warning: warning.rack)
    .pattern(RISING)
    .select(Rising, name="rising")
    .map(lambda rising: Alarm(rising.second.rack, rising.second.at))
)
WARNINGS, ALARMS = CollectSink[Warned]("warnings"), CollectSink[Alarm]("alarms")
PIPELINE = Pipeline("monitoring", warnings.sink_to(WARNINGS), alarms.sink_to(ALARMS))


def answers() -> list[Answer]:
    """Looks at neighbours in the sorted events."""
    all_warnings, all_alarms = [], []
    for rack in range(3):
        of_rack = sorted((event for event in EVENTS if event.rack == rack), key=lambda event: event.at)
        of_rack_warnings = [
            Warned(rack, second.at, (first.degrees + second.degrees) / 2)
            for first, second in pairwise(of_rack)
            if isinstance(first, Temperature) and isinstance(second, Temperature)
            if min(first.degrees, second.degrees) >= THRESHOLD and second.at - first.at < 10_000
        ]
        all_warnings += of_rack_warnings
        all_alarms += [
            Alarm(rack, second.at)
            for first, second in pairwise(of_rack_warnings)
            if second.at - first.at < 20_000 and first.mean < second.mean
        ]
    assert all_warnings
    assert all_alarms
    return [Answer(WARNINGS, all_warnings), Answer(ALARMS, all_alarms)]

"""The pipelines that run on several machines. What they write depends on no order and on no division into batches."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.crash.elsewhere import Url
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.functions import BroadcastContext, KeyedBroadcastProcessFunction, ReadOnlyContext, ReadOnlyOnTimerContext
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import DatabaseSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow.state import MapStateDescriptor
from windrow.windows import TumblingEventTimeWindows

__all__ = [
    "IN_FILES",
    "JOBS",
    "TABLES",
    "TOPICS",
    "Place",
    "Reading",
    "Sum",
    "build",
    "lines",
    "readings",
    "summed",
    "summed_in_python",
]

# Any in this module: the stages of a stream of several types.

JOBS: Final = ("sensors", "bucket", "topics", "levels", "postgres")
IN_FILES: Final = ("sensors", "levels")
"""Those that need nothing but a shared folder."""
TOPICS: Final = ("machines-in", "machines-out")
TABLES: Final = ("sensors", "rooms")
_START: Final = 1_700_000_000_000
_STEP: Final = 20  # milliseconds from one reading to the next
_DISORDER: Final = 900
_BOUND: Final = timedelta(seconds=60)  # more than what comes at once, however it is divided
_SENSORS: Final = 60
_ROOMS: Final = 7


class Reading(NamedTuple):
    sensor: str
    room: str
    at: int
    value: int


class Sum(NamedTuple):
    key: str
    end: int
    readings: int
    value: int


class Share(NamedTuple):
    sensor: str
    end: int
    value: int
    of: int


class Limit(NamedTuple):
    room: str
    at: int
    percent: int


class Alert(NamedTuple):
    room: str
    at: int
    what: str
    value: int


@dataclass(frozen=True)
class Place:
    """Where a job reads and writes.

    Attributes:
        job: Which one.
        url: A folder with the folders ``in`` and ``out``.
        servers: Where the broker of the topics answers, or the address of the database.
    """

    job: str
    url: str
    servers: str

    def folder(self, name: str) -> Path | Url:
        """A folder in that."""
        return (Url(self.url) if "://" in self.url else Path(self.url)) / name


def readings(numbers: Iterable[int]) -> Iterator[Reading]:
    """The readings of some numbers, with disorder in time."""
    for number in numbers:
        chance = random.Random(number)
        sensor = chance.randrange(_SENSORS)
        at = _START + number * _STEP + chance.randrange(-_DISORDER, _DISORDER)
        yield Reading(f"s{sensor}", _room_of(sensor), at, chance.randrange(100))


def lines(values: Iterable[Any]) -> list[str]:
    """Records as JSON."""
    return [json.dumps(value._asdict(), separators=(",", ":")) for value in values]


def build(place: Place) -> Pipeline:
    """The pipeline of a job."""
    if place.job == "topics":
        source = KafkaSource(place.servers, TOPICS[0], Reading, starting_offsets="earliest", max_offsets_per_batch=4000)
        sink = KafkaSink[Sum](place.servers, TOPICS[1], key=lambda each: each.key)
        return Pipeline("topics", summed(from_source(source)).sink_to(sink))
    events = from_source(JsonFileSource(place.folder("in"), Reading))
    output = place.folder("out")
    if place.job == "levels":
        counts, alerts = _levels(_stamped(events))
        return Pipeline(
            "levels",
            counts.sink_to(ParquetFileSink(output / "shares")),
            alerts.sink_to(JsonFileSink(output / "alerts")),
        )
    if place.job == "postgres":
        return Pipeline(
            "postgres",
            summed(events).sink_to(DatabaseSink(place.servers, TABLES[0])),
            summed_in_python(events).sink_to(DatabaseSink(place.servers, TABLES[1], key=("key", "end"))),
        )
    return Pipeline(
        place.job,
        summed(events).sink_to(ParquetFileSink(output / "sensors")),
        summed_in_python(events).sink_to(JsonFileSink(output / "rooms")),
    )


def summed(events: DataStream[Reading]) -> DataStream[Sum]:
    """Windows on columns."""
    windows = _stamped(events).key_by(lambda each: each.sensor).window(TumblingEventTimeWindows.of(_seconds(5)))
    return windows.aggregate(agg.into(Sum, agg.key(), agg.window_end(), agg.count(), agg.sum(lambda each: each.value)))


def summed_in_python(events: DataStream[Reading]) -> DataStream[Sum]:
    """Windows with a function in Python."""
    windows = _stamped(events).key_by(_room).window(TumblingEventTimeWindows.of(_seconds(10)))
    return windows.apply(
        lambda key, window, found: [Sum(key, window.end, len(found), sum(each.value for each in found))]
    ).returns(Sum)


def _levels(events: DataStream[Reading]) -> tuple[DataStream[Share], DataStream[Alert]]:
    """Windows, a join of them, and rules for what is joined."""
    of_sensors, of_rooms = (
        events.key_by(key)
        .window(TumblingEventTimeWindows.of(_seconds(5)))
        .aggregate(agg.into(Sum, agg.key(), agg.window_end(), agg.count(), agg.sum(lambda each: each.value)))
        for key in (_sensor, _room)
    )
    shares = (
        of_sensors.join(of_rooms)
        .where(lambda sensor: _room_of(int(sensor.key[1:])))
        .equal_to(lambda room: room.key)
        .window(TumblingEventTimeWindows.of(_seconds(5)))
        .apply(lambda sensor, room: Share(sensor.key, sensor.end, sensor.value, room.value))
    )
    limits = from_collection([Limit(f"r{room}", 4_000_000_000_000, 20 + 3 * room) for room in range(_ROOMS)])
    timed = limits.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda limit: limit.at
    )
    alerts = shares.key_by(lambda share: _room_of(int(share.sensor[1:]))).connect(timed.broadcast(Alerts.LIMITS))
    return shares, alerts.process(Alerts())


class Alerts(KeyedBroadcastProcessFunction[str, Share, Limit, Alert]):
    """Tells of the sensors that have more of their room than its limit, and how many these were in twenty seconds."""

    LIMITS = MapStateDescriptor("limits", str, int)
    _COUNTS = MapStateDescriptor("counts", int, int)

    def process_element(self, value: Share, context: ReadOnlyContext[str]) -> Iterable[Alert]:
        room = _room_of(int(value.sensor[1:]))
        limit = context.get_broadcast_state(self.LIMITS).get(room) or 0
        if 100 * value.value > limit * value.of:
            span, counts = value.end - value.end % 20_000 + 20_000, context.get_state(self._COUNTS)
            counts.put(span, (counts.get(span) or 0) + 1)
            context.timer_service.register_event_time_timer(span)
            yield Alert(room, value.end, value.sensor, value.value)

    def process_broadcast_element(self, value: Limit, context: BroadcastContext[str, Alert]) -> Iterable[Alert]:
        context.get_broadcast_state(self.LIMITS).put(value.room, value.percent)
        return ()

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[str]) -> Iterable[Alert]:
        counts = context.get_state(self._COUNTS)
        found = counts.get(timestamp) or 0
        counts.remove(timestamp)
        return [Alert(context.key, timestamp, "alerts", found)]


def _stamped(events: DataStream[Reading]) -> DataStream[Reading]:
    return events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(_BOUND), timestamp=lambda each: each.at
    )


def _sensor(reading: Reading) -> str:
    return reading.sensor


def _room(reading: Reading) -> str:
    return reading.room


def _room_of(sensor: int) -> str:
    return f"r{sensor % _ROOMS}"


def _seconds(number: int) -> timedelta:
    return timedelta(seconds=number)

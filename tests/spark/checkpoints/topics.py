"""A fourth pipeline whose checkpoint is kept: windows from a topic into a topic, exactly once. Do not change it.

Where the first run ends, windows are open on columns and as objects, and a batch has ended within both partitions.
Brokers give each topic an id, which the offsets hold: another broker's has to be put in its place.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from tests.kafka.topics import Topics, in_json
from tests.spark.comparison import Outputs, millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSink
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows

__all__ = ["IN", "OUT", "READINGS", "begin", "make", "pipeline"]

_PREFIX = "kept-topics"
IN, OUT = f"{_PREFIX}-in", f"{_PREFIX}-out"
READINGS = 120
"""How many readings both runs take."""
_HALF = 80
_START = 1_700_000_000_000


class Reading(NamedTuple):
    sensor: str
    at: int
    celsius: float


class Mean(NamedTuple):
    sensor: str
    end: int
    celsius: float


def pipeline(servers: str, readings: int) -> tuple[Pipeline, Outputs]:
    """The pipeline over the first so many readings, which are written to a broker; it takes twenty of them a batch."""
    outputs = Outputs()
    _write(Topics(servers, _PREFIX), readings)
    source = KafkaRecordSource(
        servers, IN, Reading, starting_offsets="earliest", ending_offsets="latest", max_offsets_per_batch=20
    )
    stream = from_source(source, name="in").assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=30)), timestamp=_time_of
    )
    keyed = stream.key_by(lambda record: record.value.sensor)
    means = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=10))).aggregate(
        agg.into(Mean, agg.key(), agg.window_end(), agg.mean(lambda record: record.value.celsius)), name="means"
    )
    outputs.add("means", means.map(tuple), key=repr)
    sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(2_500)))
    outputs.add(
        "sessions",
        # Of two partitions either may come first.
        sessions.apply(
            lambda key, window, records: [(key, window.end, sorted(each.value.celsius for each in records))],
            name="sessions",
        ),
    )
    outputs.ends.append(means.sink_to(KafkaSink(servers, OUT)))
    return outputs.pipeline("topics"), outputs


def _time_of(record: KafkaRecord[Reading]) -> int:
    return record.value.at


def begin(servers: str) -> tuple[Pipeline, Outputs]:
    """The pipeline over what the first run takes, of topics that are made anew."""
    make(servers)
    return pipeline(servers, _HALF)


def make(servers: str) -> None:
    """Makes the topics anew, without records."""
    topics = Topics(servers, _PREFIX)
    for name in {IN, OUT} & topics.names():
        topics.delete(name)
    topics.make("in", partitions=2)
    topics.make("out")


def _write(topics: Topics, count: int) -> None:
    """Writes readings that are not there yet, in turn to the two partitions; every seventh is twelve seconds behind."""
    for partition, written in enumerate(topics.offsets_of(IN)):
        numbers = range(partition + 2 * written, count, 2)
        records = (
            Reading(f"s{n % 3}", _START + n * 1_000 - (12_000 if n % 7 == 6 else 0), n / 2)._asdict() for n in numbers
        )
        topics.send(IN, in_json(records), partition=partition)

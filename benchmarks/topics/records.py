"""The records of topics, and the results that are right."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.errors import WrongResultError

__all__ = ["BATCH", "Fed", "feed", "read_results"]

# Any in this module: confluent-kafka has no types.

BATCH = 500_000
_KEYS = 1_000
_ROWS_PER_SECOND = 10_000
_START_MS = 1_700_000_040_000
_DISORDER_MS = 500
_WINDOW_MS = 5_000
_CLOSING = "closing"
_SECONDS = 60.0

Means = Mapping[tuple[str, int], float]
"""The mean of each sensor and end of a window."""

_targets = count()


@dataclass(frozen=True)
class Fed:
    """A topic with records, and what a contender has to make of them."""

    servers: str
    topic: str
    records: int
    partitions: int
    expected: Means

    def new_target(self) -> str:
        """Make a topic for results."""
        name = f"out-{next(_targets)}"
        _make(self.servers, name, self.partitions)
        return name

    def check(self, found: Means, contender: str) -> None:
        """Refuse results that are not those of the records."""
        if found.keys() != self.expected.keys():
            missing, more = len(self.expected.keys() - found.keys()), len(found.keys() - self.expected.keys())
            raise WrongResultError(f"{contender}: {missing} of {len(self.expected)} windows are missing, {more} others")
        for place, mean in found.items():
            if abs(mean - self.expected[place]) > 1e-9 * abs(mean):
                raise WrongResultError(f"{contender}: {mean} instead of {self.expected[place]} at {place}")


def feed(servers: str, topic: str, records: int, partitions: int) -> Fed:
    """Make a topic, and write readings in the order of their time to its partitions in turn."""
    from confluent_kafka import Producer

    _make(servers, topic, partitions)
    random = np.random.default_rng(20_240_501)
    sensors = random.integers(0, _KEYS, records)
    at = _START_MS + np.arange(records) * 1000 // _ROWS_PER_SECOND - random.integers(0, _DISORDER_MS, records)
    celsius = np.round(random.normal(20.0, 5.0, records), 2)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "batch.size": 1 << 20,
        }
    )
    rows = zip(sensors.tolist(), at.tolist(), celsius.tolist(), strict=True)
    for number, (sensor, when, degrees) in enumerate(rows):
        text = f'{{"sensor": "sensor-{sensor:04d}", "at": {when}, "celsius": {degrees}}}'
        while True:
            try:
                producer.produce(topic, text, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(_SECONDS) == 0
    end = int(at[-1]) + 3_600_000
    for partition in range(partitions):  # each has a watermark of its own
        producer.produce(topic, json.dumps({"sensor": _CLOSING, "at": end, "celsius": 0.0}), partition=partition)
    assert producer.flush(_SECONDS) == 0
    return Fed(servers, topic, records, partitions, _means(sensors, at, celsius))


def _means(
    sensors: npt.NDArray[np.int64], at: npt.NDArray[np.int64], celsius: npt.NDArray[np.float64]
) -> dict[tuple[str, int], float]:
    windows = at // _WINDOW_MS
    places, inverse = np.unique(windows * _KEYS + sensors, return_inverse=True)
    means = np.bincount(inverse, celsius) / np.bincount(inverse)
    return {
        (f"sensor-{place % _KEYS:04d}", (place // _KEYS + 1) * _WINDOW_MS): mean
        for place, mean in zip(places.tolist(), means.tolist(), strict=True)
    }


def read_results(servers: str, topic: str) -> Means:
    """Read the results of a contender, each of which is there once."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "results", "enable.auto.commit": False}
    # Behind the last record there may be markers of transactions, so that its place does not tell the end.
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    found: dict[tuple[str, int], float] = {}
    try:
        for number in consumer.list_topics(topic).topics[topic].partitions:
            place: Any = TopicPartition(topic, number, 0)
            consumer.assign([place])
            limit = time.monotonic() + _SECONDS
            is_read = False
            while not is_read:
                if time.monotonic() > limit:
                    raise WrongResultError(f"{topic} cannot be read")
                for message in consumer.consume(10_000, 0.1):
                    error = message.error()
                    if error is not None:
                        is_read = error.name() == "_PARTITION_EOF"
                        continue
                    row = json.loads(message.value() or b"")
                    where = row["sensor"], row["window_end"]
                    if where in found:
                        raise WrongResultError(f"{where} is there twice")
                    if row["sensor"] != _CLOSING:
                        found[where] = row["mean"]
    finally:
        consumer.close()
    return found


def _make(servers: str, topic: str, partitions: int) -> None:
    from confluent_kafka import admin

    client = admin.AdminClient({"bootstrap.servers": servers})
    new = admin.NewTopic(topic, partitions, 1)  # type: ignore[attr-defined]  # the module does not export it by name
    for future in client.create_topics([new]).values():
        future.result(_SECONDS)

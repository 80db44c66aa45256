"""What tests do with a broker: make topics, write records, read what is committed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Record", "Topics", "in_json"]

# Any in this module: the client has no types where it is not installed, and JSON has values of every type.

_SECONDS = 30.0


class Record(NamedTuple):
    """A record, as it is written or read; times are in milliseconds since 1970."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = 0


def in_json(values: Iterable[Any]) -> list[Record]:
    """Records of values as JSON."""
    return [Record(json.dumps(value).encode()) for value in values]


@dataclass(frozen=True)
class Topics:
    """The topics of a test, whose names begin with its name.

    Attributes:
        servers: Where the broker answers.
        prefix: What no other test has.
    """

    servers: str
    prefix: str

    def make(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        """Make a topic with settings of its own; returns its full name."""
        from confluent_kafka import admin as module

        untyped: Any = module  # it does not say that it exports this class
        full = f"{self.prefix}-{name}"
        admin = self._admin()
        _wait_for(admin.create_topics([untyped.NewTopic(full, partitions, 1, config=dict(settings or {}))]))
        end = time.monotonic() + _SECONDS
        while full not in admin.list_topics(timeout=_SECONDS).topics:
            assert time.monotonic() < end, f"{full} is not there yet"
        return full

    def names(self) -> set[str]:
        """All topics of the broker, also those of other tests."""
        return set(self._admin().list_topics(timeout=_SECONDS).topics)

    def id_of(self, topic: str) -> str:
        """The id that the broker has drawn for a topic."""
        from confluent_kafka import TopicCollection

        admin = self._admin()
        return str(admin.describe_topics(TopicCollection([topic]))[topic].result(_SECONDS).topic_id)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions: as many as it shall have."""
        from confluent_kafka import admin as module

        untyped: Any = module  # it does not say that it exports this class
        admin = self._admin()
        _wait_for(admin.create_partitions([untyped.NewPartitions(topic, partitions)]))
        end = time.monotonic() + _SECONDS
        while len(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions) < partitions:
            assert time.monotonic() < end, f"{topic} has no more partitions yet"

    def delete(self, topic: str) -> None:
        """Delete a topic with its records."""
        admin = self._admin()
        _wait_for(admin.delete_topics([topic]))
        end = time.monotonic() + _SECONDS
        while topic in admin.list_topics(timeout=_SECONDS).topics:
            assert time.monotonic() < end, f"{topic} is still there"

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Have a partition lose its records before an offset, as it does when they are too old."""
        from confluent_kafka import TopicPartition

        admin = self._admin()  # it is kept: what it was asked ends with it
        _wait_for(admin.delete_records([TopicPartition(topic, partition, before)]))

    def send(self, topic: str, records: Iterable[Record], *, partition: int = 0) -> None:
        """Write records, and wait until the broker has them."""
        producer = self.producer()
        for record in records:
            self.produce(producer, topic, record, partition)
        assert producer.flush(_SECONDS) == 0

    def producer(self, **settings: Any) -> Any:
        """A producer for what :meth:`send` does not do, such as transactions."""
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.servers, **settings})

    @staticmethod
    def produce(producer: Any, topic: str, record: Record, partition: int = 0) -> None:
        """Have a producer write a record."""
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )

    def read(self, topic: str, count: int, partition: int = 0) -> list[Record]:
        """Wait until a partition has so many committed records, and return all that it has, in order."""
        from confluent_kafka import Consumer, TopicPartition

        # It asks where the topic ends in between, which waits behind what it reads.
        settings = {"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer({**settings, "fetch.wait.max.ms": 10, "isolation.level": "read_committed"})
        try:
            place = TopicPartition(topic, partition, 0)
            consumer.assign([place])
            found: list[Record] = []
            end = time.monotonic() + _SECONDS
            while len(found) < count or consumer.position([place])[0].offset < self._end(consumer, place):
                assert time.monotonic() < end, f"{topic} has {len(found)} records instead of {count}: {found}"
                message = consumer.poll(0.1)
                if message is not None:
                    assert message.error() is None, message.error()
                    headers: Any = message.headers() or ()  # a list, for a consumer
                    found.append(Record(message.value(), message.key(), headers, message.timestamp()[1]))
            return found
        finally:
            consumer.close()

    def values(self, topic: str, count: int) -> list[Any]:
        """The committed values of a topic of one partition, which are JSON, in order."""
        return [None if record.value is None else json.loads(record.value) for record in self.read(topic, count)]

    def committed(self, topic: str) -> list[Record]:
        """All committed records of all partitions, after the transactions that are open now have ended."""
        from confluent_kafka import Consumer, TopicPartition

        ends = self.offsets_of(topic)
        settings = {"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": "read_committed"})
        found: list[Record] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in range(len(ends))])
            left = {partition for partition, end in enumerate(ends) if end}
            limit = time.monotonic() + _SECONDS
            while left:
                assert time.monotonic() < limit, f"a transaction is open in {topic}, partitions {left}"
                message: Any = consumer.poll(0.1)
                if message is None:
                    continue
                if message.error() is None:
                    found.append(Record(message.value(), message.key(), (), message.timestamp()[1]))
                elif message.offset() >= ends[message.partition()]:
                    left.discard(message.partition())
        finally:
            consumer.close()
        return found

    def offsets_of(self, topic: str) -> list[int]:
        """Where each partition ends, behind the last record or the last end of a transaction."""
        from confluent_kafka import Consumer, TopicPartition

        # A broker ends a transaction a moment after it has said so. Readers of what is committed see an end before it.
        settings = {"bootstrap.servers": self.servers, "group.id": "tests", "isolation.level": "read_uncommitted"}
        consumer = Consumer(settings)
        try:
            partitions = sorted(consumer.list_topics(timeout=_SECONDS).topics[topic].partitions)
            return [self._end(consumer, TopicPartition(topic, partition)) for partition in partitions]
        finally:
            consumer.close()

    @staticmethod
    def _end(consumer: Any, place: Any) -> int:
        end: int = consumer.get_watermark_offsets(place, timeout=_SECONDS)[1]
        return end

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})


def _wait_for(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)

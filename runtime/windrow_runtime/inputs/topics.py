"""Reads Kafka topics by confluent-kafka, with the same batches and errors on both engines.

A partition of a topic is a partition of the source, named ``topic/number``, and its offsets are Kafka's. Planner and
workers have a client each, which lasts as long as their process. Records of transactions that were aborted are passed
over, unless the option ``isolation.level`` says otherwise, and so are the places of markers and of what was compacted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import methodcaller
from re import Pattern
from typing import Any, Final

from windrow.addresses.redaction import redact
from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import SourceError
from windrow.kafka import TopicSource
from windrow.plan import Step
from windrow.time import timestamp_millis
from windrow_runtime.codecs.kafka_client import (
    CLIENTS_KEPT,
    QUIET_LOG,
    admin_client,
    check_client_library,
    client_library,
    forget_admin_clients,
)
from windrow_runtime.codecs.registry.client import check_libraries
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.inputs.custom import Offsets, Range, Reads
from windrow_runtime.inputs.topic_values import TopicValues, kafka_decoder, topic_values
from windrow_runtime.operators.errors import errors_at

# Any in this module: confluent-kafka and pyarrow have no types, and records have values of every type.

_SECONDS: Final = 15.0
"""How long a request to the brokers may take."""

_SECONDS_WITHOUT_RECORDS: Final = 60.0
"""How long a reader waits for a record that the brokers have."""

_RECORDS_AT_ONCE: Final = 10_000

_ERROR_OF: Final = methodcaller("error")

_FETCHING: Final[dict[str, Any]] = {
    # A batch ends where records are: a fetch that waits for later ones would hold up the next batch.
    "fetch.wait.max.ms": 10,
    # What is read beyond a range is read again by the next batch, so it is little, and a full queue is looked at often.
    "queued.max.messages.kbytes": 16_384,
    "max.partition.fetch.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 2,
}

_OF_CONSUMERS: Final = ("group.id", "isolation.level")

_READERS: Final[dict[int, object]] = {}
"""The reader for which each consumer is assigned: one that is closed late does not end the read of the next."""


@dataclass(frozen=True)
class TopicReads(Reads):
    """Plans the batches of topics, and reads them."""

    topics: TopicSource[Any]
    values: TopicValues | None  # None: records are decoded one by one

    @classmethod
    def of(cls, source: TopicSource[Any], step: Step, needed: frozenset[str] | None = None) -> TopicReads:
        """Returns the reads of a step's source; ``needed`` has the columns that the plan uses, None: all."""
        with errors_at(step.where):
            check_pyarrow("Kafka topics are read")
            check_client_library(source)
            if isinstance(source.value_format, RegistryFormat):
                check_libraries(source.value_format)
            values = topic_values(source, needed)
            as_columns = None if isinstance(values, str) else values
            kind = None if as_columns is None else as_columns.kind
            return cls(step.where, kind, source, as_columns)

    def latest(self) -> dict[str, Any]:
        """Returns the latest offset of each partition of the topics."""
        return self._offsets_of(self.partitions(), "latest")

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Returns how far the next batch reads each partition, at most as many records as the source says."""
        end = {name: list(offsets) for name, offsets in start.items()}
        new = [name for name in latest if name not in end]
        if new:
            # A partition that is added later has no record that anybody has left out.
            begin: Any = "earliest" if start else self.topics.starting_offsets
            # Records that come meanwhile lie behind the latest offsets, which are asked for once.
            asked = {} if begin == "latest" else self._offsets_of(new, begin)
            firsts = {name: min(asked.get(name, latest[name]), latest[name]) for name in new}
            end.update({name: [first, first] for name, first in firsts.items()})
        waiting = {name: last for name, last in sorted(latest.items()) if end[name][1] != last}
        if waiting:
            self._check_lost(end, waiting)
        most = self.topics.max_offsets_per_batch
        counts = {name: last - end[name][1] for name, last in waiting.items()}
        total = sum(count for count in counts.values() if count > 0)
        for name, last in waiting.items():
            count = counts[name]
            share = count if most is None or total <= most or count < 0 else max(1, count * most // total)
            end[name][1] = last if share == count else end[name][1] + share
        return end

    def _check_lost(self, end: Offsets, waiting: Mapping[str, Any]) -> None:
        """Refuses offsets whose records are gone, unless the source says how to go on."""
        if self.topics.on_lost_offsets == "fail":
            for name, first in self._offsets_of(waiting, "earliest").items():
                self._check_there(name, first, end[name][1], waiting[name])

    def _check_there(self, name: str, first: int, reached: int, last: int) -> None:
        """Refuses an offset that lies before the first record of a partition, or behind the last one."""
        if first <= reached <= last:
            return
        topic, partition = _place(name)
        expired = reached < first
        gone = f"offsets {reached} to {first - 1}" if expired else f"offset {reached}, and it ends at {last}"
        raise SourceError(
            "records that were to be read are not in the topic any more"
            if expired
            else "a topic ends before the offset up to which it was read: it was made anew",
            given=f"{topic}, partition {partition}, {gone}",
            expected="topics that keep records until they are read",
            where=self.where,
            hint='on_lost_offsets="earliest" goes on with the first records that are there, "latest" without them',
        )

    def read(self, range_: Range) -> Iterator[Any]:
        """Reads the records of a partition from one offset to another."""
        with errors_at(self.where), self._kafka_errors(f"{range_.partition}, offsets {range_.start} to {range_.end}"):
            batches = self._batches(range_)
            yield from map(kafka_decoder(self.topics), batches) if self.values is None else self.values(batches)

    def commit(self, offsets: Offsets) -> None:
        """Does nothing: the checkpoint has the offsets."""

    def _batches(self, range_: Range) -> Iterator[Any]:
        """Reads records as Arrow batches."""
        # Arrow only where a topic is read: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.topic_rows import TopicRows

        place, end = _place(range_.partition), range_.end
        consumer = _consumer(self._config(), self.topics.on_lost_offsets)
        following = self._first_offset(range_, consumer)
        if following >= end:
            return
        consumer.assign([client_library().TopicPartition(*place, following)])
        reader = _READERS[id(consumer)] = object()
        try:
            patience, is_last = time.monotonic() + _SECONDS_WITHOUT_RECORDS, False
            while not is_last:
                # It waits for so many, and in vain where transactions have markers between them.
                messages = consumer.consume(min(_RECORDS_AT_ONCE, end - following), timeout=0.1)
                is_plain = bool(messages) and not any(map(_ERROR_OF, messages)) and messages[-1].offset() < end
                records = messages
                if not is_plain:
                    records = [each for each in messages if each.error() is None and each.offset() < end]
                if records:
                    yield TopicRows(records, *place)
                    patience = time.monotonic() + _SECONDS_WITHOUT_RECORDS
                    following = records[-1].offset() + 1
                is_last = following == end or (not is_plain and self._is_behind(messages, end, range_))
                if not is_last and time.monotonic() > patience:
                    raise SourceError(
                        "no broker sends the records of a topic",
                        given=f"{range_.partition}, offsets {following} to {end}",
                        expected=f"a record within {_SECONDS_WITHOUT_RECORDS:.0f} s",
                        where=self.where,
                        hint="the brokers answered when the batch was planned; run again when they are back",
                    )
        finally:
            if _READERS.get(id(consumer)) is reader:
                consumer.unassign()

    def _first_offset(self, range_: Range, consumer: Any) -> int:
        """Returns the offset at which a range is read, by what the topic still has; its end if it has nothing."""
        begin: int = range_.start
        place = client_library().TopicPartition(*_place(range_.partition))
        try:
            first, last = consumer.get_watermark_offsets(place, timeout=_SECONDS)
        except client_library().KafkaException as error:
            if error.args[0].name() != "_UNKNOWN_PARTITION":
                raise
            # A client looks for new partitions every five minutes, or when it is told to.
            consumer.list_topics(place.topic, timeout=_SECONDS)
            first, last = consumer.get_watermark_offsets(place, timeout=_SECONDS)
        if self.topics.on_lost_offsets == "fail":
            # A batch that runs again is not planned again, and records may be gone by now.
            self._check_there(range_.partition, first, begin, last)
            return begin
        if first <= begin <= range_.end:
            return begin
        return int(first if self.topics.on_lost_offsets == "earliest" else range_.end)

    def _is_behind(self, messages: Sequence[Any], end: int, range_: Range) -> bool:
        """Returns whether a message lies behind a range, or says that the partition ends there.

        Behind the last record there may be markers of transactions alone. A broker that follows the leader may end
        before the range does.
        """
        for message in messages:
            error = message.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise _refused(error, range_.partition, self.where, self.topics)
        return any(message.offset() >= end for message in messages)

    def partitions(self) -> list[str]:
        """Returns the partitions of the topics that there are now."""
        with self._kafka_errors("the list of topics"):
            # Without a name, which would make a topic that is not there.
            topics = self._admin().list_topics(timeout=_SECONDS).topics
        wanted = self.topics.topics
        if isinstance(wanted, Pattern):
            names: Iterable[str] = [name for name in topics if wanted.fullmatch(name)]
        else:
            names = wanted
            missing = [name for name in wanted if name not in topics]
            if missing:
                raise SourceError(
                    "a topic is not there",
                    given=f"{missing[0]} at {self.topics.options['bootstrap.servers']}",
                    expected="a topic that was made before",
                    where=self.where,
                    hint="a compiled pattern reads topics that are made later",
                )
        for name in names:
            if topics[name].error is not None:
                raise _refused(topics[name].error, name, self.where, self.topics)
        return [f"{name}/{partition}" for name in sorted(names) for partition in sorted(topics[name].partitions)]

    def _offsets_of(self, names: Iterable[str], which: Any) -> dict[str, int]:
        """Returns the offsets of partitions: the ``"earliest"``, the ``"latest"``, or the first at a time."""
        client = client_library()
        spec_of = client.admin.OffsetSpec
        if isinstance(which, datetime):
            spec = spec_of.for_timestamp(max(timestamp_millis(which), 0))  # no record is older
        else:
            spec = spec_of.earliest() if which == "earliest" else spec_of.latest()
        wanted = {client.TopicPartition(*_place(name)): spec for name in names}
        if not wanted:
            return {}
        config = self._config()
        level = client.IsolationLevel.READ_COMMITTED
        if dict(config)["isolation.level"] == "read_uncommitted":
            level = client.IsolationLevel.READ_UNCOMMITTED
        with self._kafka_errors(f"the {which} offsets"):
            asked = self._admin().list_offsets(wanted, isolation_level=level, request_timeout=_SECONDS)
            found = {f"{place.topic}/{place.partition}": each.result().offset for place, each in asked.items()}
        late = [name for name, offset in found.items() if offset < 0]  # no record is as late as that time
        return found | (self._offsets_of(late, "latest") if late else {})

    def _admin(self) -> Any:
        return admin_client({name: value for name, value in self._config() if name not in _OF_CONSUMERS})[0]

    def _config(self) -> tuple[tuple[str, str], ...]:
        given = {"group.id": "windrow", "isolation.level": "read_committed", **self.topics.options}
        return tuple(sorted(given.items()))

    @contextmanager
    def _kafka_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except client_library().KafkaException as error:
            # A client that has failed would go on asking.
            forget_admin_clients()
            _kept_consumer.cache_clear()
            raise _refused(error.args[0], what, self.where, self.topics) from None


def _refused(error: Any, what: str, where: str, source: TopicSource[Any]) -> SourceError:
    """Returns the error for a request that the brokers or the client refused; the text may hold an option's value."""
    return SourceError(
        "Kafka cannot be read",
        given=f"{what} of {source.describe()}: {redact(error.str(), source.secrets)} ({error.name()})",
        expected="brokers that answer, and options that they take",
        where=where,
        hint="the servers and options of the source say where, and with which rights",
    )


def _place(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def _consumer(config: tuple[tuple[str, str], ...], on_lost: str) -> Any:
    return _kept_consumer(config, on_lost, os.getpid(), threading.get_ident())


@lru_cache(maxsize=CLIENTS_KEPT)
def _kept_consumer(config: tuple[tuple[str, str], ...], on_lost: str, process: int, thread: int) -> Any:
    reset = "error" if on_lost == "fail" else "earliest"
    own = {"enable.auto.commit": "false", "auto.offset.reset": reset, "enable.partition.eof": "true"}
    return client_library().Consumer({"log_level": 0, **_FETCHING, **dict(config), **own}, logger=QUIET_LOG)

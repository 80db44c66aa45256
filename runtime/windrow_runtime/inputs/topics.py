"""Reads Kafka topics by confluent-kafka, with the same batches and errors on both engines.

A partition of a topic is a partition of the source, named ``topic/number``, and its offsets are Kafka's. Planner and
workers have a client each, which lasts as long as their process. Records of transactions that were aborted are passed
over, unless the option ``isolation.level`` says otherwise, and so are the places of markers and of what was compacted.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import methodcaller
from re import Pattern
from typing import Any, Final

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
from windrow_runtime.codecs.kafka_errors import (
    ABSENT,
    asked_again,
    is_of,
    listed_topics,
    may_pass,
    refused_error,
    shown,
)
from windrow_runtime.codecs.registry.client import check_libraries
from windrow_runtime.codecs.text_files import check_pyarrow
from windrow_runtime.inputs.custom import Offsets, Range, Reads
from windrow_runtime.inputs.topic_values import TopicValues, kafka_decoder, topic_values
from windrow_runtime.operators.errors import errors_at

# Any in this module: confluent-kafka and pyarrow have no types, and records have values of every type.

_SECONDS_WITHOUT_RECORDS: Final = 60.0
"""How long a reader waits for a record that the brokers have."""

_RECORDS_AT_ONCE: Final = 10_000

_AT_END: Final = "_PARTITION_EOF"
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
            passing: Any = None  # the newest error that may pass
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
                    passing = None
                is_last = following == end
                if not is_plain:
                    ended = [
                        each.offset() for each in messages if each.error() is None or each.error().name() == _AT_END
                    ]
                    is_last = is_last or any(offset >= end for offset in ended)
                    passing = self._passing_in(messages, range_) or passing
                if not is_last and time.monotonic() > patience:
                    reason = "" if passing is None else f": {shown(self.topics, passing)}"
                    raise SourceError(
                        "no broker sends the records of a topic",
                        given=f"{range_.partition}, offsets {following} to {end}{reason}",
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
        first, last = self._ends(range_.partition, consumer)
        if self.topics.on_lost_offsets == "fail":
            # A batch that runs again is not planned again, and records may be gone by now.
            self._check_there(range_.partition, first, begin, last)
            return begin
        if first <= begin <= range_.end:
            return begin
        return int(first if self.topics.on_lost_offsets == "earliest" else range_.end)

    def _ends(self, name: str, consumer: Any) -> tuple[int, int]:
        """Returns the offsets of the first record that a partition has, and behind the last one."""
        place = client_library().TopicPartition(*_place(name))

        def ask(seconds: float) -> tuple[int, int]:
            try:
                first, last = consumer.get_watermark_offsets(place, timeout=seconds)
            except client_library().KafkaException as error:
                if not is_of(error.args[0], ABSENT):
                    raise
                # A client looks for new partitions every five minutes, or when it is told to.
                consumer.list_topics(place.topic, timeout=seconds)
                first, last = consumer.get_watermark_offsets(place, timeout=seconds)
            return first, last

        return asked_again(ask)

    def _passing_in(self, messages: Sequence[Any], range_: Range) -> Any:
        """Returns the last error among messages, or None; raises one that does not pass.

        The end of a partition is no error: behind the last record there may be markers of transactions alone, and a
        broker that follows the leader may end before the range does.
        """
        errors = [error for error in map(_ERROR_OF, messages) if error is not None and error.name() != _AT_END]
        for error in errors:
            if not may_pass(error):
                raise refused_error(self.topics, self.where, error, range_.partition)
        return errors[-1] if errors else None

    def partitions(self) -> list[str]:
        """Returns the partitions of the topics that there are now."""
        wanted = self.topics.topics
        with self._kafka_errors("the list of topics"):
            topics = listed_topics(*self._admin(), wanted)
        names = filter(wanted.fullmatch, topics) if isinstance(wanted, Pattern) else wanted
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

        def ask(seconds: float) -> dict[str, int]:
            asked = self._admin()[0].list_offsets(wanted, isolation_level=level, request_timeout=seconds)
            offsets = {f"{place.topic}/{place.partition}": each.result().offset for place, each in asked.items()}
            if min(offsets.values()) < (client.OFFSET_END if isinstance(which, datetime) else 0):
                # The client gives this instead of the error with which a broker has gone away.
                raise client.KafkaException(client.KafkaError(client.KafkaError.OFFSET_NOT_AVAILABLE))
            return offsets

        with self._kafka_errors(f"the {which} offsets"):
            found = asked_again(ask)
        late = [name for name, offset in found.items() if offset < 0]  # no record is as late as that time
        return found | (self._offsets_of(late, "latest") if late else {})

    def _admin(self) -> tuple[Any, deque[Any]]:
        return admin_client({name: value for name, value in self._config() if name not in _OF_CONSUMERS})

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
            raise refused_error(self.topics, self.where, error.args[0], what) from None


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

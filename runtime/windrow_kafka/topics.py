"""Reads Kafka topics by confluent-kafka, with the same batches and errors on both engines.

A partition of a topic is a partition of the source, named ``topic/number``, and its offsets are Kafka's. Planner and
workers have a client each, which lasts as long as their process. Records of transactions that were aborted are passed
over, unless the option ``isolation.level`` says otherwise, and so are the places of markers and of what was compacted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from operator import methodcaller
from re import Pattern
from typing import Any, Final

from windrow.errors import SourceError
from windrow.kafka import RECORDS_OF_A_TASK, TopicSource
from windrow_kafka.brokers import TopicBrokers, place_of
from windrow_kafka.client import client_library
from windrow_kafka.faults import ABSENT, asked_again, is_of, may_pass, reasons_told, refused_error, shown
from windrow_kafka.values import TopicValues, kafka_decoder
from windrow_runtime.inputs.batches import OpenPartitions
from windrow_runtime.inputs.offsets import Offsets, Range, Reads
from windrow_runtime.operators.errors import errors_at

# Any in this module: confluent-kafka and pyarrow have no types, and records have values of every type.

_SECONDS_WITHOUT_RECORDS: Final = 60.0
"""How long a reader waits for a record that the brokers have."""

_SECONDS_OF_TRUST: Final = 2.0
"""How long a reader waits for a record before it looks whether the brokers still have it."""

_RECORDS_AT_ONCE: Final = 10_000

_LEAST_OF_A_TASK: Final = 50_000
"""The fewest records for which one more task reads a partition."""

_HINT_OF_LOSS: Final = 'on_lost_offsets="earliest" goes on with the first records that are there, "latest" without them'
_NO_ID: Final = "A" * 22  # what brokers before 2.8 say

_AT_END: Final = "_PARTITION_EOF"
_DOUBTS: Final = (*ABSENT, "OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET", "_LOG_TRUNCATION")
"""Words in the names of errors after which a reader looks whether the brokers still have its records."""

_ERROR_OF: Final = methodcaller("error")

_READERS: Final[dict[int, object]] = {}
"""The reader for which each consumer is assigned: one that is closed late does not end the read of the next."""


@dataclass
class _Seen:
    """What a planner has seen of the topics: a topic that is made anew has another id."""

    ids: dict[str, str] = field(default_factory=dict)
    is_new: bool = False  # whether no batch was planned with it yet
    is_settled: bool = False  # whether transactions that had been committed before were waited for
    ends: dict[str, int] = field(default_factory=dict)  # of partitions that changed after the latest offsets
    bounds: dict[str, int] | None = None  # where the run ends, if it does; None: not asked yet


@dataclass(frozen=True)
class TopicReads(Reads):
    """Plans the batches of topics, and reads them."""

    topics: TopicSource[Any]
    values: TopicValues | None  # None: records are decoded one by one
    seen: _Seen = field(default_factory=_Seen, compare=False)
    tasks: int = 1  # those that share the records of a batch
    divided: bool = False  # whether several of them may read one partition
    least: int = _LEAST_OF_A_TASK

    @property
    def _brokers(self) -> TopicBrokers:
        return TopicBrokers(self.topics, self.where)

    @property
    def is_bounded(self) -> bool:
        return self.topics.is_bounded

    def shared_by(self, tasks: int, *, divided: bool) -> TopicReads:
        return replace(self, tasks=tasks, divided=divided)

    @property
    def _most(self) -> float:
        """The most records of a batch: what waits for one group of keys has to fit into the memory of a worker."""
        most = self.topics.max_offsets_per_batch
        if most is None:
            return RECORDS_OF_A_TASK * self.tasks
        return math.inf if most == "all" else most

    def latest(self) -> dict[str, Any]:
        """Returns the latest offset of each partition of the topics; of bounded ones, that at which the run ends."""
        names = self.partitions()
        if not self.seen.is_settled:
            self._brokers.settle(names)
            self.seen.is_settled = True
        self.seen.ends, self.seen.is_new = {}, True
        if not self.is_bounded:
            return self._brokers.offsets(names, "latest")
        if self.seen.bounds is None:
            self.seen.bounds = self._brokers.offsets(names, self.topics.ending_offsets)
        return {name: self.seen.bounds[name] for name in names if name in self.seen.bounds}

    def open_partitions(self, reached: Offsets, latest: Mapping[str, Any]) -> OpenPartitions:
        return super().open_partitions(reached, self._not_before(reached, {**latest, **self.seen.ends}))

    def _not_before(self, reached: Offsets, latest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the ends of partitions, not before the offsets that an earlier run has reached."""
        if not isinstance(self.topics.ending_offsets, datetime):
            return latest
        return {name: max(last, reached[name][1]) if name in reached else last for name, last in latest.items()}

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """Returns the ranges that a batch reads; partitions of a topic that was made anew are read as new ones."""
        same = {name: offsets for name, offsets in start.items() if not _is_other(offsets, end.get(name, ()))}
        ranges = super().ranges(same, end)
        # Where the first records of a range are gone, "latest" leaves out all others of the batch, too.
        is_divided = self.divided and self.topics.on_lost_offsets != "latest"
        return list(self._in_shares(ranges)) if is_divided else ranges

    def _in_shares(self, ranges: Sequence[Range]) -> Iterator[Range]:
        """Yields the parts of ranges that tasks read, about as many records each.

        They follow from the offsets alone, so that a batch that runs again is divided alike.
        """
        records = sum(each.end - each.start for each in ranges)
        share = max(records / self.tasks, self.least)
        for each in ranges:
            count = each.end - each.start
            parts = max(1, round(count / share))
            ends = [each.start + count * part // parts for part in range(parts + 1)]
            yield from (each._replace(start=start, end=end) for start, end in pairwise(ends))

    def advance(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Returns how far the next batch reads each partition, at most as many records as the source says."""
        latest = self._still_there(start, latest)
        anew = self._made_anew(start, latest)
        end = {name: list(offsets) for name, offsets in start.items() if name not in anew and not self._is_gone(name)}
        latest = self._not_before(end, latest)
        new = [name for name in latest if name not in end]
        if new:
            # A partition that is added later has no record that anybody has left out.
            begin: Any = "earliest" if start else self.topics.starting_offsets
            # Records that come meanwhile lie after the latest offsets, which are asked for once.
            begins = {} if begin == "latest" else self._brokers.offsets(new, begin)
            firsts = {name: min(begins.get(name, latest[name]), latest[name]) for name in new}
            if self.topics.on_lost_offsets == "latest":
                firsts.update((name, latest[name]) for name in anew)
            end.update({name: [first, first, *self._id_of(name)] for name, first in firsts.items()})
        waiting = {name: last for name, last in sorted(latest.items()) if end[name][1] != last}
        if waiting:
            self._check_lost(end, waiting)
        most = self._most
        counts = {name: last - end[name][1] for name, last in waiting.items()}
        total = sum(count for count in counts.values() if count > 0)
        for name, last in waiting.items():
            count = counts[name]
            share = count if total <= most or count < 0 else max(1, int(count * most // total))
            reached = last if share == count else end[name][1] + share
            # A checkpoint of an earlier version has no id, and gets it with the first records.
            end[name] = [end[name][0], reached, *self._id_of(name)]
        return end

    def _still_there(self, start: Offsets, latest: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the latest offsets of partitions that still exist, and notes the ids of their topics.

        The latest offsets may be those of the begin of a run, so the brokers are asked again for each further batch.
        A topic that was read and is gone is refused, unless the source says how to go on.
        """
        seen, before = self.seen, self.seen.ids
        topics = {topic for topic, _ in map(place_of, start) if self._is_wanted(topic)}
        read = topics if self.topics.on_lost_offsets == "fail" else set()
        existing = set(latest)
        if (before and not seen.is_new) or not read <= before.keys():
            existing &= {*self._look(read)}
            anew = [name for name in existing if self._id_of(name) and self._id_of(name) != _id_in(before, name)]
            seen.ends.update(self._brokers.offsets(anew, self.topics.ending_offsets or "latest"))
            seen.ends.update((name, start[name][1]) for name in latest if name in start and name not in existing)
        seen.is_new = False
        return {name: seen.ends.get(name, last) for name, last in latest.items() if name in existing}

    def _is_gone(self, name: str) -> bool:
        """Returns whether the topic of a partition was deleted, so that its offsets are of no use."""
        topic, ids = place_of(name)[0], self.seen.ids
        return bool(ids) and topic not in ids and self._is_wanted(topic)

    def _made_anew(self, start: Offsets, latest: Mapping[str, Any]) -> list[str]:
        """Returns the partitions that were read of topics with another id; refuses them unless they may be lost."""
        anew = [name for name in start if name in latest and _is_other(start[name], (0, 0, *self._id_of(name)))]
        if anew and self.topics.on_lost_offsets == "fail":
            _, reached, before = start[anew[0]]
            raise self._other_topic(anew[0], f"read up to offset {reached}", before, *self._id_of(anew[0]))
        return anew

    def _other_topic(self, name: str, offsets: str, before: str, now: str) -> SourceError:
        """Returns the error for the partition of a topic that has another id than before."""
        topic, partition = place_of(name)
        return SourceError(
            "a topic was made anew after it was read",
            given=f"{topic}, partition {partition}, {offsets}: its id was {before}, and is {now}",
            expected="topics that keep records until they are read",
            where=self.where,
            hint=_HINT_OF_LOSS,
        )

    def _check_lost(self, end: Offsets, waiting: Mapping[str, Any]) -> None:
        """Refuses offsets whose records are gone, unless the source says how to go on."""
        if self.topics.on_lost_offsets == "fail":
            for name, first in self._brokers.offsets(waiting, "earliest").items():
                self._check_there(name, first, end[name][1], waiting[name])

    def _check_there(self, name: str, first: int, reached: int, last: int) -> None:
        """Refuses an offset that lies before the first record of a partition, or after the last one."""
        if first <= reached <= last:
            return
        topic, partition = place_of(name)
        expired = reached < first
        gone = f"offsets {reached} to {first - 1}" if expired else f"offset {reached}, and it ends at {last}"
        raise SourceError(
            "records that were to be read are not in the topic any more"
            if expired
            else "a topic ends before the offset up to which it was read: it was made anew, or brokers lost records",
            given=f"{topic}, partition {partition}, {gone}",
            expected="topics that keep records until they are read",
            where=self.where,
            hint=_HINT_OF_LOSS,
        )

    def read(self, range_: Range) -> Iterator[Any]:
        """Reads the records of a partition from one offset to another."""
        with errors_at(self.where), self._brokers.errors(f"the records of {range_.partition}", was_there=True):
            batches = self._of_planned_topic(range_, self._batches(range_))
            yield from map(kafka_decoder(self.topics), batches) if self.values is None else self.values(batches)

    def commit(self, offsets: Offsets) -> None:
        """Does nothing: the checkpoint has the offsets."""

    def _of_planned_topic(self, range_: Range, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields batches until the topic may have been recreated: a client would go on with the new topic by itself.

        Ids do not come back, so with the id of before all records up to then were the planned ones.
        """
        may_lose = self.topics.on_lost_offsets != "fail"
        for batch in batches:
            if may_lose and self._is_of_other_topic(range_):
                return  # the next batch reads all records of that topic
            yield batch
        if not may_lose:
            self._is_of_other_topic(range_)  # refuses it

    def _batches(self, range_: Range) -> Iterator[Any]:
        """Reads records as Arrow batches."""
        # Arrow only where a topic is read: the interpreter runs without it.
        from windrow_kafka.columns import TopicRows

        place, end = place_of(range_.partition), range_.end
        consumer = self._brokers.consumer()
        following = self._first_offset(range_, consumer)
        if following >= end:
            return
        consumer.assign([client_library().TopicPartition(*place, following)])
        reader = _READERS[id(consumer)] = object()
        try:
            patience, is_last = time.monotonic() + _SECONDS_WITHOUT_RECORDS, False
            trust = time.monotonic() + _SECONDS_OF_TRUST
            passing: Any = None  # the newest error that may pass
            while not is_last:
                # The client waits for this many records, in vain where markers of transactions lie between them.
                messages = consumer.consume(min(_RECORDS_AT_ONCE, end - following), timeout=0.1)
                is_plain = bool(messages) and not any(map(_ERROR_OF, messages)) and messages[-1].offset() < end
                records = messages
                if not is_plain:
                    records = [each for each in messages if each.error() is None and each.offset() < end]
                if records:
                    yield TopicRows(records, *place)
                    patience = time.monotonic() + _SECONDS_WITHOUT_RECORDS
                    trust = time.monotonic() + _SECONDS_OF_TRUST
                    following = records[-1].offset() + 1
                    passing = None
                is_last = following == end
                if not is_plain:
                    ended = [
                        each.offset() for each in messages if each.error() is None or each.error().name() == _AT_END
                    ]
                    is_last = is_last or any(offset >= end for offset in ended)
                    passing = self._passing_in(messages, range_) or passing
                is_doubtful = passing is not None and is_of(passing, _DOUBTS)
                if not is_last and (is_doubtful or time.monotonic() > trust):
                    if self._is_lost(range_, following, consumer):
                        return
                    if is_doubtful:
                        # A client reads no further after such an error.
                        consumer.assign([client_library().TopicPartition(*place, following)])
                        passing = None
                    trust = time.monotonic() + _SECONDS_OF_TRUST
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

    def _is_of_other_topic(self, range_: Range) -> bool:
        """Returns whether the topic has another id than the range; refuses that unless the source says how to go on."""
        before, topic = range_.incarnation, place_of(range_.partition)[0]
        if before is None:
            return False  # a checkpoint of an earlier version, or a broker that tells no ids
        try:
            topics = asked_again(lambda seconds: self._brokers.described((topic,), seconds))
        except client_library().KafkaException as error:
            if is_of(error.args[0], ABSENT):
                return False  # its records were read before, or a reader finds none
            raise
        now = str(topics[topic].topic_id)
        if now in (before, _NO_ID):
            return False
        if self.topics.on_lost_offsets == "fail":
            offsets = f"offsets {range_.start} to {range_.end} are read"
            raise self._other_topic(range_.partition, offsets, before, now)
        return True

    def _first_offset(self, range_: Range, consumer: Any) -> int:
        """Returns the first offset of a range that the topic still has; the end of the range if it has none."""
        begin: int = range_.start
        ends = self._ends(range_.partition, consumer)
        if ends is None or self._is_of_other_topic(range_):
            return int(range_.end)  # the next batch reads another topic from its first record on
        first, last = ends
        if self.topics.on_lost_offsets == "fail":
            # A batch that runs again is not planned again, and records may be gone by now.
            self._check_there(range_.partition, first, begin, last)
            return begin
        if begin > last:
            # Brokers lost records: a client would begin at the first one, which the next batch reads as well.
            return int(range_.end)
        if first <= begin <= range_.end:
            return begin
        return int(first if self.topics.on_lost_offsets == "earliest" else range_.end)

    def _is_lost(self, range_: Range, following: int, consumer: Any) -> bool:
        """Returns whether the brokers lack the rest of a range; refuses that unless the source says how to go on."""
        try:
            ends = self._ends(range_.partition, consumer)
            is_other = ends is not None and self._is_of_other_topic(range_)
        except client_library().KafkaException as error:
            if may_pass(error.args[0]):
                return False
            raise
        if self.topics.on_lost_offsets == "fail" and ends is not None:
            self._check_there(range_.partition, ends[0], following, ends[1])
            self._check_there(range_.partition, ends[0], range_.end, ends[1])
        return ends is None or is_other or ends[1] < range_.end

    def _ends(self, name: str, consumer: Any) -> tuple[int, int] | None:
        """Returns the offset of the first record that a partition has, and the one after its last record.

        None: it is not there any more, and the source says how to go on.
        """
        place = client_library().TopicPartition(*place_of(name))

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

        try:
            return asked_again(ask)
        except client_library().KafkaException as error:
            if self.topics.on_lost_offsets != "fail" and is_of(error.args[0], ABSENT):
                return None
            raise

    def _passing_in(self, messages: Sequence[Any], range_: Range) -> Any:
        """Returns the last error among messages that may pass, or raises doubts; None: there is none.

        Any other one is raised.

        The end of a partition is no error: after the last record there may be markers of transactions alone, and a
        broker that follows the leader may end before the range does.
        """
        errors = [error for error in map(_ERROR_OF, messages) if error is not None and error.name() != _AT_END]
        for error in errors:
            if not may_pass(error) and not is_of(error, _DOUBTS):
                raise refused_error(self.topics, self.where, error, range_.partition)
        return errors[-1] if errors else None

    def partitions(self) -> list[str]:
        """Returns the partitions of the topics that there are now."""
        return self._look()

    def _look(self, read: Collection[str] = ()) -> list[str]:
        """Returns the partitions of the topics, and of those that were ``read``; notes the ids of the topics."""
        client, errors = self._brokers.admin()
        wanted = self.topics.topics

        def ask(seconds: float) -> dict[str, Any]:
            if not isinstance(wanted, Pattern):
                return self._brokers.described(wanted, seconds)
            with reasons_told(client, errors):
                names = {*read, *filter(wanted.fullmatch, client.list_topics(timeout=seconds).topics)}
            return self._brokers.described(names, seconds)

        with self._brokers.errors("the list of topics", was_there=bool(read or self.seen.ids)):
            topics = asked_again(ask)
        self.seen.ids = {name: str(topic.topic_id) for name, topic in topics.items()}
        return [f"{name}/{each.id}" for name, topic in sorted(topics.items()) for each in topic.partitions]

    def _is_wanted(self, topic: str) -> bool:
        wanted = self.topics.topics
        return bool(wanted.fullmatch(topic)) if isinstance(wanted, Pattern) else topic in wanted

    def _id_of(self, name: str) -> tuple[str, ...]:
        """Returns the id of the topic of a partition; nothing: the brokers do not tell it."""
        return _id_in(self.seen.ids, name)


def _id_in(ids: Mapping[str, str], name: str) -> tuple[str, ...]:
    topic_id = ids.get(place_of(name)[0], _NO_ID)
    return () if topic_id == _NO_ID else (topic_id,)


def _is_other(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Returns whether the offsets of a partition are those of two topics with one name."""
    return len(before) > 2 and len(now) > 2 and before[2] != now[2]

"""Writes Kafka topics by confluent-kafka, each task of a batch in one transaction, on both engines.

A transaction holds the records of a task, and the number of the batch as an offset of a consumer group that has the
name of the transactional id, so that both are there or neither. A batch that runs again finds its number, and writes
nothing.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, NamedTuple
from uuid import uuid4

from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import SinkError, SourceError
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow_kafka.client import QUIET_LOG, admin_client, check_client_library, client_library
from windrow_kafka.faults import (
    ABSENT,
    FENCED,
    LARGE,
    UNSTABLE,
    absent_topic,
    asked_again,
    is_of,
    kafka_errors,
    may_pass,
    reasons_told,
    refused_error,
)
from windrow_kafka.records import Records, TopicRecords
from windrow_kafka.registry.client import check_libraries
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.operators.errors import errors_at, field_errors, shortened
from windrow_runtime.outputs.output import Identity, Output

# Any in this module: confluent-kafka and pyarrow have no types, and elements are of every type.

_SECONDS: Final = 20.0
"""How long a request to the brokers may take."""

_SECONDS_TO_ABORT: Final = 5.0

_SECONDS_TO_SEND: Final = 30.0
"""How long a record may wait for a broker, unless the options say otherwise."""

_PATIENCE: Final = 0.1
"""How long a producer that is kept waits for its own mark, in seconds, before another one takes its place."""

_PRODUCERS: Final = 8
"""The most producers that a process keeps for the next batches, one for each sink."""

_QUESTIONS: Final = 16  # the most requests that wait at once
_ERRORS: Final = 20  # the newest ones that a producer remembers


class _Key(NamedTuple):
    """Identifies a sink of a query, by any of its transactional ids. A forked process shares none with its parent."""

    process: int
    options: tuple[tuple[str, str], ...]
    sink: str

    @classmethod
    def of(cls, sink: KafkaSink[Any], name: str) -> _Key:
        return cls(os.getpid(), tuple(sorted(sink.options.items())), name.rpartition("-")[0])


class _Mark(NamedTuple):
    """A transaction notes the batch, how it was divided, the producer, and the topic at whose offset that is noted.

    The division is a text that begins with the number of partitions; "0": it is unknown.
    """

    batch: int
    division: str
    producer: str
    topic: str


class TopicTask:
    """Writes the records of one task of a batch. Its methods raise a ``SinkError`` if Kafka does not take them."""

    def __init__(
        self, step: Step, sink: KafkaSink[Any], identity: Identity, batch: int, partition: int, division: str
    ) -> None:
        self._step, self._sink = step, sink
        self._batch, self._division = batch, division
        self._name = f"{_prefix(identity)}{partition}"
        self._records = TopicRecords.of(step, sink)
        self._producer: _Producer | None = None
        self._is_open = False  # whether a transaction has begun
        self._begun = 0.0

    def write(self, values: Sequence[Any]) -> int:
        """Write elements; returns how many bytes they take."""
        if not values:
            return 0
        with field_errors(self._step.where):
            records = self._records.of_elements(values)
        return self._send(records)

    def write_rows(self, rows: Any) -> int:
        """Does what :meth:`write` does, for elements of an Arrow batch that go to one topic without keys."""
        if not rows.num_rows:
            return 0
        # Arrow only where columns are written: the interpreter runs without it.
        from windrow_runtime.codecs.arrow.decoding import lines_of_rows

        topic, lines = self._records.topic, self._records.lines
        assert isinstance(topic, str), "functions take elements"
        with field_errors(self._step.where):
            if self._records.registered is not None:
                texts = self._records.registered.encode_rows(rows, topic)
            else:
                assert lines is not None, "the other format that is written of columns is JSON"
                element_type = record_type(self._step.node.element_type)
                texts = lines_of_rows(rows, element_type, lines).encode().split(b"\n")[:-1]
        return self._send(Records.of_values(topic, texts))

    def finish(self) -> None:
        """Commits the transaction, at the end of a task that has succeeded."""
        if self._is_open and self._producer is not None:
            with self._kafka_errors("the end of the transaction"):
                while self._producer.client.flush(1.0):
                    self._check_delivered()
                self._check_delivered()
                self._producer.commit()
            self._is_open = False
            self._producer.keep()

    def close(self) -> None:
        """Ends a transaction that was not committed; nothing of it is seen by consumers that read what is committed."""
        if self._producer is not None and self._is_open:
            self._producer.abort()
        self._producer, self._is_open = None, False

    def _send(self, records: Records) -> int:
        if self._producer is None:
            with self._kafka_errors("the beginning of a transaction"):
                self._begin(records.topics[0])
        producer = self._producer
        if producer is None or not self._is_open:
            return 0  # the batch was written before
        unknown = {*records.topics} - producer.topics
        if unknown:
            with self._kafka_errors("the list of topics"):
                producer.find(unknown)
        produce, rows = producer.client.produce, list(zip(*records, strict=True))
        place = 0
        while place < len(rows):
            self._check_delivered()
            try:
                for topic, key, value, others in rows[place:]:
                    produce(topic, value, key, **others)
                    place += 1
            except BufferError:
                self._check_delivered(0.01)
            except client_library().KafkaException as error:
                self._check_delivered()  # what was refused before is the reason
                topic, key, value, _ = rows[place]
                raise self._refused(error.args[0], _shown(topic, key, value)) from None
        return records.size

    def _begin(self, topic: str) -> None:
        """Takes a producer, and begins a transaction unless an earlier one has written the batch."""
        kept = _kept.pop(_Key.of(self._sink, self._name), None)
        if kept is not None and kept.name == self._name:
            # Spark gives a partition to any worker: another one may have taken this one over since, to write a batch,
            # which its mark shows, or in vain, which the broker shows as it refuses the mark of this one.
            with suppress(client_library().KafkaException):
                mark = newest_mark(self._sink, self._name, _PATIENCE, [topic])
                if mark is not None and mark == kept.mark:
                    self._begin_with(kept, mark, topic)
                    return
        kept = None  # its client ends before there is a new one
        producer = _Producer(self._sink, self._name)
        self._begin_with(producer, newest_mark(self._sink, self._name, _SECONDS, [topic]), topic)

    def _begin_with(self, producer: _Producer, mark: _Mark | None, topic: str) -> None:
        if mark is not None and mark.batch > self._batch:
            raise _written_later(self._step, self._sink, self._batch, self._name, mark)
        if mark is None or mark.batch < self._batch:
            # The mark stays with its topic, where brokers report a transaction that is still pending.
            place = topic if mark is None or isinstance(self._sink.topic, str) else mark.topic
            producer.begin(place, self._batch, self._division)
            self._is_open, self._begun = True, time.monotonic()
        self._producer = producer

    def _check_delivered(self, seconds: float = 0) -> None:
        """Waits for answers of brokers, and raises the error for a record that they have refused."""
        if self._producer is not None:
            with self._kafka_errors("its records"):
                self._producer.client.poll(seconds)
            if self._producer.failed:
                error, message = self._producer.failed[0]
                raise self._refused(error, _shown(message.topic(), message.key(), message.value()))

    def _kafka_errors(self, what: str) -> AbstractContextManager[None]:
        return kafka_errors(self._sink, self._step.where, what, self._refused)

    def _refused(self, error: Any, what: str) -> SourceError | SinkError:
        lasted = time.monotonic() - self._begun
        if not (self._is_open and is_of(error, FENCED) and lasted >= _longest(self._sink)):
            return refused_error(self._sink, self._step.where, error, what)
        return SinkError(
            "a transaction of a Kafka sink lasted longer than it may",
            given=f"{self._sink.describe()}: {lasted:.0f} s",
            expected=f"at most {_longest(self._sink):.0f} s",
            where=self._step.where,
            hint="smaller batches, or a longer transaction.timeout.ms among the options of the sink; brokers allow "
            "transaction.max.timeout.ms. Nothing of the task was written",
        )


class TopicOutput(Output):
    """Writes each batch of a sink in one transaction, in the interpreter."""

    def __init__(self, step: Step, sink: KafkaSink[Any], identity: Identity) -> None:
        self._step, self._sink, self._identity = step, sink, identity

    def close(self) -> None:
        _kept.pop(_Key.of(self._sink, f"{_prefix(self._identity)}0"), None)

    def open(self) -> None:
        check_topic(self._step, self._sink)

    def write(self, batch: int, values: Sequence[object]) -> None:
        task = TopicTask(self._step, self._sink, self._identity, batch, partition=0, division="1 partitions")
        try:
            task.write(values)
            task.finish()
        finally:
            task.close()


class _Producer:
    """A producer with a transactional id, which has ended the transactions of the producers with it before."""

    def __init__(self, sink: KafkaSink[Any], name: str) -> None:
        client, options = client_library(), dict(sink.options)
        self.name = name
        self._key = _Key.of(sink, name)
        self.mark: _Mark | None = None  # that of the last transaction that it has committed
        self._begun_mark: _Mark | None = None
        self._token = uuid4().hex
        self.failed: list[tuple[Any, Any]] = []  # the error and the message of a record that was refused
        self.topics: set[str] = set()
        self._errors: deque[Any] = deque(maxlen=_ERRORS)
        defaults: dict[str, Any] = {
            "transaction.timeout.ms": int(_longest(sink) * 1000),
            "message.timeout.ms": int(min(_longest(sink), _SECONDS_TO_SEND) * 1000),
            "partitioner": "murmur2_random",  # that of Java's clients
            "queue.buffering.max.kbytes": 64 << 10,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 50,  # a task flushes at its end
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
        own = {
            "transactional.id": name,
            "delivery.report.only.error": True,
            "on_delivery": _noting(self.failed),
            "error_cb": self._errors.append,
        }
        self.client = client.Producer({**defaults, **options, **own}, logger=QUIET_LOG)
        # It connects first: a client without a broker asks for the coordinator twice a second.
        self.find(set())
        asked_again(self._end_earlier)
        consumer = client.Consumer({**options, "group.id": name, "log_level": 0}, logger=QUIET_LOG)
        self._group = consumer.consumer_group_metadata()
        consumer.close()

    def _end_earlier(self, seconds: float) -> None:
        """Ends the transactions of the producers before; a call after one that took too long goes on with it."""
        with reasons_told(self.client, self._errors):
            self.client.init_transactions(seconds)

    def keep(self) -> None:
        """Keeps the producer for the next batch; the one that was kept first has to go where there are many."""
        _kept[self._key] = self
        while len(_kept) > _PRODUCERS:
            _kept.popitem(last=False)

    def find(self, topics: set[str]) -> None:
        """Lists the topics that are there, and refuses those that are not."""
        self.topics = _listed(self.client, self._errors, topics)

    def begin(self, topic: str, batch: int, division: str) -> None:
        """Begins a transaction with its mark, whose place is a partition that is there for sure.

        Brokers refuse the mark of a producer whose transactional id another one has taken, and the mark at a topic
        that they would make when it is asked for, but have not yet.
        """
        if topic not in self.topics:
            self.find({topic})
        self._begun_mark = _Mark(batch, division or "0", self._token, topic)
        place = client_library().TopicPartition(topic, 0, batch, metadata=f"{self._begun_mark.division} {self._token}")
        self.client.begin_transaction()
        self.client.send_offsets_to_transaction([place], self._group, _SECONDS)

    def commit(self) -> None:
        """Commits the records and the mark."""
        self.client.commit_transaction(_SECONDS)
        self.mark = self._begun_mark

    def abort(self) -> None:
        """Tries to end the transaction; one that lasts is ended by the next producer with the transactional id."""
        with suppress(client_library().KafkaException):
            self.client.purge()
            self.client.abort_transaction(_SECONDS_TO_ABORT)


_kept: Final[OrderedDict[_Key, _Producer]] = OrderedDict()


def _listed(client: Any, errors: deque[Any], wanted: Collection[str] = ()) -> set[str]:
    """Returns the topics that a client sees; raises an error if a ``wanted`` one is missing.

    Brokers that make topics by themselves make one that is wanted and not there, as soon as it is asked for by name.
    """

    def ask(seconds: float) -> set[str]:
        with reasons_told(client, errors):
            by_name = client.list_topics(timeout=seconds).topics
            for name in sorted({*wanted} - by_name.keys()):
                by_name |= client.list_topics(name, timeout=seconds).topics
        names = {name for name, topic in by_name.items() if topic.error is None}
        for name in sorted({*wanted} - names):
            error = by_name[name].error if name in by_name else None
            if error is None or is_of(error, ABSENT):
                raise absent_topic(name)  # the broker's own error does not name it
            raise client_library().KafkaException(error)
        return names

    return asked_again(ask)


def check_topic(step: Step, sink: KafkaSink[Any]) -> None:
    """Refuse a sink, before the run, without the library, an answer of a broker, or the topic of all elements."""
    with errors_at(step.where):
        check_client_library(sink)
        if isinstance(sink.value_format, RegistryFormat):
            check_libraries(sink.value_format)
        records = TopicRecords.of(step, sink)  # refuses a type that the values cannot have
    if records.registered is not None and isinstance(sink.topic, str):
        with field_errors(step.where):
            records.registered.check(sink.topic)
    with kafka_errors(sink, step.where, "the list of topics"):
        _listed(*admin_client(sink.options), {sink.topic} if isinstance(sink.topic, str) else ())


def check_marks(
    step: Step, sink: KafkaSink[Any], identity: Identity, batch: int, division: str = "", *, again: bool = True
) -> None:
    """Refuse the first batch of a run if its query has written a later one, or has divided it differently.

    ``division`` is a text that begins with the number of partitions, and then has what else decides which element is
    in which of them; "": it cannot change. Earlier versions noted the number alone. Unless the batch runs ``again``, no
    mark may have its number: a checkpoint that was restored from an older copy would read other elements under it.
    """
    prefix = _prefix(identity)
    with kafka_errors(sink, step.where, "the list of consumer groups"), ThreadPoolExecutor(_QUESTIONS) as pool:
        admin, errors = admin_client(sink.options)
        groups = asked_again(lambda seconds: admin.list_consumer_groups(request_timeout=seconds).result()).valid
        names = sorted(f"{prefix}{end}" for each in groups if (end := each.group_id.removeprefix(prefix)).isdigit())
        topics = sorted(_listed(admin, errors)) if names else []
        # The client takes one group in a call.
        marks = pool.map(lambda name: _settled_mark(sink, name, topics), names)
        for name, mark in zip(names, marks, strict=True):
            if mark is not None and mark.batch >= batch + again:
                raise _written_later(step, sink, batch, name, mark)
            if mark is None or mark.batch != batch or not division:
                continue
            before = mark.division
            now = division.split(maxsplit=1)[0] if before.isdigit() else division
            if before not in ("0", now):
                raise SinkError(
                    "a batch that was written to Kafka in part is divided differently now",
                    given=f"batch {batch} of {sink.describe()}: {division}",
                    expected=f"{before}{' partitions' * before.isdigit()}, as when {name} wrote it",
                    where=step.where,
                    hint="run this batch with the cores and settings of then; the next ones may run on others",
                )


def _written_later(step: Step, sink: KafkaSink[Any], batch: int, name: str, mark: _Mark) -> SinkError:
    return SinkError(
        "a query has written a later batch to Kafka than the one that it runs now",
        given=f"batch {batch} of {sink.describe()}, and {name} has written {mark.batch}",
        expected="a checkpoint that has all batches of its query",
        where=step.where,
        hint="a checkpoint that was restored from an older copy lacks the newest ones: begin with a new one, or "
        "restore all of the newest copy",
    )


def _settled_mark(sink: KafkaSink[Any], name: str, topics: Sequence[str]) -> _Mark | None:
    """Returns the mark of the newest transaction with a transactional id, after the one that is open has ended."""
    try:
        return newest_mark(sink, name, _PATIENCE, topics)
    except client_library().KafkaException as error:
        if not may_pass(error.args[0]):
            raise
        if error.args[0].name() == UNSTABLE:
            # Ends a transaction that was being committed, or one whose task was killed, which would last for minutes.
            _Producer(sink, name)
        return newest_mark(sink, name, _SECONDS, topics)


def newest_mark(sink: KafkaSink[Any], name: str, patience: float, topics: Sequence[str] = ()) -> _Mark | None:
    """Returns the mark of the newest transaction with a transactional id that has been committed.

    It waits ``patience`` seconds for one that is about to end, and for a coordinator that has just become one, and
    raises an error where that takes longer. ``topics`` are those where the first mark of a sink with a topic function
    may be: brokers do not say that one is about to come at a place that has none, unless they are asked for the place.
    """
    if isinstance(sink.topic, str):
        return _mark_in(sink, name, patience, [sink.topic])
    return _mark_in(sink, name, patience, None) or (_mark_in(sink, name, patience, topics) if topics else None)


def _mark_in(sink: KafkaSink[Any], name: str, patience: float, topics: Sequence[str] | None) -> _Mark | None:
    """Returns the newest of the marks in topics; None: in all that have some."""
    client = client_library()
    places = None if topics is None else [client.TopicPartition(topic, 0) for topic in topics]
    wanted_places = client.ConsumerGroupTopicPartitions(name, places)
    end = time.monotonic() + patience
    while True:
        admin = admin_client(sink.options)[0]
        try:
            _check_coordinator(admin, name)
            answers = admin.list_consumer_group_offsets([wanted_places], require_stable=True, request_timeout=_SECONDS)
            partitions = answers[name].result().topic_partitions
            errors = [place.error for place in partitions if place.error is not None]
            if errors:
                raise client.KafkaException(errors[0])
        except client.KafkaException as error:
            if not may_pass(error.args[0]) or time.monotonic() > end:
                raise
            time.sleep(0.01)
            continue
        marks = (_Mark(each.offset, *_noted(each.metadata), each.topic) for each in partitions if each.offset >= 0)
        return max(marks, default=None)


def _check_coordinator(admin: Any, group: str) -> None:
    """Raises the error of a broker that is not the coordinator of a group, as brokers that start say for a moment.

    A process ends by a segmentation fault if such a broker answers librdkafka's request of an admin client for offsets:
    it then looks for the coordinator of the client's own group, and has none (``rd_kafka_handle_OffsetFetch``, 2.16.0).
    """
    try:
        admin.describe_consumer_groups([group], request_timeout=_SECONDS)[group].result()
    except client_library().KafkaException as error:
        if error.args[0].name() != "GROUP_ID_NOT_FOUND":  # the coordinator knows no such group yet
            raise


def _noted(metadata: str | None) -> tuple[str, str]:
    division, _, producer = (metadata or "").rpartition(" ")
    return division or "0", producer


def _prefix(identity: Identity) -> str:
    return f"windrow-{identity.query}-{identity.sink}-"


def _noting(failed: list[tuple[Any, Any]]) -> Callable[[Any, Any], None]:
    """Returns what librdkafka calls for each record that was refused: it keeps the first, or the largest of large ones.

    A broker refuses all records of a request because of one.
    """

    def keep(error: Any, message: Any) -> None:
        if not failed:
            failed.append((error, message))
        elif is_of(error, LARGE) and is_of(failed[0][0], LARGE) and len(message) > len(failed[0][1]):
            failed[0] = error, message

    def note(error: Any, message: Any) -> None:
        try:
            keep(error, message)
        except SystemError as hiding:
            # The client calls this while its own fatal error is pending, such as that of a fenced producer.
            raise (hiding.__cause__ or hiding) from None

    return note


def _longest(sink: KafkaSink[Any]) -> float:
    """Returns how long a transaction may last, in seconds; brokers allow 15 minutes by default."""
    return float(sink.options.get("transaction.timeout.ms", 900_000)) / 1000


def _shown(topic: str, key: bytes | None, value: bytes | None) -> str:
    return f"{len(key or b'') + len(value or b'')} bytes for {topic}, key {key!r}, value {shortened(value)}"

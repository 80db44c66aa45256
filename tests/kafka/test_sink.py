"""Kafka's topics written by confluent-kafka: in the interpreter, and by the writers of tasks, against a broker."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

from tests.kafka.topics import Record, Topics
from windrow import OutputTag, Pipeline, from_collection
from windrow.errors import InvalidArgumentError, SinkError, UserFunctionError
from windrow.failures import Failed
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow.sinks import CollectSink
from windrow_kafka import faults as kafka_errors
from windrow_kafka import writes
from windrow_kafka.client import client_library
from windrow_kafka.writes import TopicTask, check_marks, newest_mark
from windrow_runtime.local import LocalRunner
from windrow_runtime.outputs.output import Identity

# Any in this module: sinks of every type of elements.


class Reading(NamedTuple):
    sensor: str
    celsius: float


@pytest.fixture(autouse=True)
def others() -> None:
    """Lets each test begin as another process, which has no producers."""
    writes._kept.clear()


def pipeline_of(sink: KafkaSink[Any], values: Sequence[Any]) -> Pipeline:
    return Pipeline("p", from_collection(values).sink_to(sink))


def run(sink: KafkaSink[Any], values: Sequence[Any]) -> None:
    LocalRunner().run(pipeline_of(sink, values))


def step_of(sink: KafkaSink[Any]) -> Step:
    return pipeline_of(sink, [0]).steps[-1]


def task(topics: Topics, sink: KafkaSink[Any], batch: int, partition: int = 0, division: str = "2") -> TopicTask:
    """The writer of a task of the query whose identity is the test's."""
    return TopicTask(step_of(sink), sink, Identity(topics.prefix, "out"), batch, partition, division)


def write(topics: Topics, sink: KafkaSink[Any], batch: int, values: Sequence[Any], **place: Any) -> None:
    """Runs a task to its successful end."""
    writer = task(topics, sink, batch, **place)
    writer.write(values)
    writer.finish()
    writer.close()


def abandoned(topics: Topics, sink: KafkaSink[Any], batch: int, values: Sequence[Any]) -> TopicTask:
    """A task that has written all and then is killed, as far as brokers can tell: it is neither finished nor closed."""
    writer = task(topics, sink, batch)
    writer.write(values)
    assert writer._producer is not None
    assert writer._producer.client.flush(10) == 0
    return writer


def test_values_with_keys_and_topics_of_their_own(topics: Topics) -> None:
    small, large = topics.make("small"), topics.make("large", 2)
    readings = [Reading("a", 1.5), Reading("b", 50.0), Reading("", 2.5)]
    run(KafkaSink[Reading](topics.servers, lambda r: large if r.celsius > 9 else small, key=lambda r: r.sensor or None),
        readings)  # fmt: skip
    assert [(record.key, record.value) for record in topics.read(small, 2)] == [
        (b"a", b'{"sensor":"a","celsius":1.5}'),
        (None, b'{"sensor":"","celsius":2.5}'),
    ]
    # Kafka's clients in Java have this key in the same partition: murmur2(b"b") is 2,379,376,689.
    (record,) = topics.read(large, 1, partition=0x7FFFFFFF & _murmur2(b"b") and (0x7FFFFFFF & _murmur2(b"b")) % 2)
    assert (record.key, json.loads(record.value or b"")) == (b"b", {"sensor": "b", "celsius": 50.0})


def _murmur2(data: bytes) -> int:
    """Kafka's hash of a key of fewer than four bytes."""
    value = 0x9747B28C ^ len(data)
    for place, byte in reversed(list(enumerate(data))):
        value ^= byte << 8 * place
    value = value * 0x5BD1E995 & 0xFFFFFFFF
    value ^= value >> 13
    value = value * 0x5BD1E995 & 0xFFFFFFFF
    return value ^ value >> 15


@pytest.mark.parametrize(("value_format", "values"), [("text", ["é", "a\nb", ""]), ("bytes", [b"\xff\n", b""])])
def test_raw_values(topics: Topics, value_format: Any, values: list[Any]) -> None:
    topic = topics.make("out")
    run(KafkaSink[Any](topics.servers, topic, value_format=value_format), values)
    wanted = [value.encode() if isinstance(value, str) else value for value in values]
    assert [record.value for record in topics.read(topic, len(values))] == wanted


def test_more_records_than_the_client_queues(topics: Topics) -> None:
    topic = topics.make("out")
    run(KafkaSink[int](topics.servers, topic, options={"queue.buffering.max.messages": "100"}), range(3000))
    assert len(topics.committed(topic)) == 3000


def test_elements_of_which_no_record_can_be_made_go_to_a_side_output(topics: Topics) -> None:
    topic, failed, letters = topics.make("out"), OutputTag[Failed[int]]("failed"), CollectSink[Failed[int]]()
    sink = KafkaSink[int](topics.servers, topic, key=lambda number: str(6 // (number - 3)))
    written = from_collection(range(6)).sink_to(sink, on_error=failed)
    pipeline = Pipeline("p", written, written.get_side_output(failed).sink_to(letters))
    (each,) = LocalRunner().run(pipeline).collected(letters)
    assert each.element == 3
    assert each.error.startswith("UserFunctionError: the key function of the sink raised ZeroDivisionError")
    assert topics.values(topic, 5) == [0, 1, 2, 4, 5]


def test_a_run_that_fails_leaves_nothing_to_see(topics: Topics) -> None:
    topic = topics.make("out")
    failing = KafkaSink[int](topics.servers, topic, key=lambda n: str(6 // (n - 9000)))
    with pytest.raises(UserFunctionError, match=r"the key function of the sink raised ZeroDivisionError(.|\n)*p\.2\."):
        run(failing, range(10_000))
    run(KafkaSink[int](topics.servers, topic), [1])
    assert topics.values(topic, 1) == [1]


def test_a_batch_that_runs_again_writes_nothing(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    write(topics, sink, 0, [1])
    write(topics, sink, 0, [1])  # by the producer of the process
    writes._kept.clear()
    write(topics, sink, 0, [1])  # by another one
    write(topics, sink, 1, [2])
    for kept in (True, False):
        if not kept:
            writes._kept.clear()
        message = r"has written a later batch to Kafka(.|\n)*batch 0 of .*-out-0 has written 1\n(.|\n)*older copy"
        with pytest.raises(SinkError, match=message):
            write(topics, sink, 0, [7])
    assert topics.values(topic, 2) == [1, 2]


def test_a_task_that_was_killed_before_it_ended_leaves_nothing(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    write(topics, sink, 0, [0])
    writes._kept.clear()
    killed = abandoned(topics, sink, 1, [1, 2])
    write(topics, sink, 1, [1, 2])
    assert topics.values(topic, 3) == [0, 1, 2]
    # It was not dead at all, only late.
    with pytest.raises(SinkError, match="another task has taken over a transaction of a Kafka sink"):
        killed.finish()
    killed.close()
    assert not writes._kept or next(iter(writes._kept.values())) is not killed._producer
    write(topics, sink, 2, [3])
    assert topics.values(topic, 4) == [0, 1, 2, 3]


def test_a_task_that_fails_takes_its_records_back(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    failed = abandoned(topics, sink, 0, [1])
    failed.close()
    # Consumers do not wait for it, though no other task with its name has come.
    write(topics, sink, 0, [2], partition=1)
    assert topics.values(topic, 1) == [2]


def test_the_producer_of_a_process_is_used_until_another_has_written(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    write(topics, sink, 0, [0])
    ((key, mine),) = writes._kept.items()
    write(topics, sink, 1, [1])
    assert writes._kept == {key: mine}
    # Workers take partitions as they come, so another one may write the next batch.
    writes._kept.clear()
    write(topics, sink, 2, [2])
    writes._kept[key] = mine
    write(topics, sink, 3, [3])
    assert writes._kept[key] is not mine
    assert topics.values(topic, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize("end", ["written before", "failed"])
def test_a_producer_that_another_process_has_fenced_in_vain_is_replaced(topics: Topics, end: str) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    write(topics, sink, 0, [0])
    ((key, mine),) = writes._kept.items()
    writes._kept.clear()
    if end == "written before":
        write(topics, sink, 0, [0])  # the batch runs again, in another worker
    else:
        abandoned(topics, sink, 1, [1]).close()
    assert not writes._kept
    writes._kept[key] = mine
    write(topics, sink, 1, [1])
    assert writes._kept[key] is not mine
    assert topics.values(topic, 2) == [0, 1]


def test_a_process_keeps_one_producer_for_each_of_some_sinks(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "_PRODUCERS", 2)
    topic = topics.make("out")
    sinks = [KafkaSink[int](topics.servers, topic, options={"client.id": name}) for name in "abc"]
    for batch in range(2):
        for partition in range(3):
            write(topics, sinks[0], batch, [batch], partition=partition)
    assert [producer.name[-1] for producer in writes._kept.values()] == ["2"]
    for batch, sink in enumerate(sinks[1:], start=2):
        write(topics, sink, batch, [batch])
    assert [dict(key.options)["client.id"] for key in writes._kept] == ["b", "c"]
    assert topics.values(topic, 8) == [0, 0, 0, 1, 1, 1, 2, 3]


def test_a_producer_that_is_replaced_leaves_no_threads(topics: Topics) -> None:
    sink = KafkaSink[int](topics.servers, topics.make("out"))

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    write(topics, sink, 0, [0])
    before = threads()
    for partition in range(1, 5):
        write(topics, sink, 0, [0], partition=partition)
        assert threads() == before


FOUR = "4 partitions, cores=2"


def check(topics: Topics, sink: KafkaSink[Any], batch: int, division: str) -> None:
    check_marks(step_of(sink), sink, Identity(topics.prefix, "out"), batch, division)


def test_a_new_batch_with_the_number_of_a_written_one_is_refused(topics: Topics) -> None:
    sink = KafkaSink[int](topics.servers, topics.make("out"))
    write(topics, sink, 1, [0], partition=3, division=FOUR)
    of_query = step_of(sink), sink, Identity(topics.prefix, "out")
    check_marks(*of_query, 1)
    check_marks(*of_query, 2, again=False)
    for batch, again in ((1, False), (0, True)):
        with pytest.raises(SinkError, match="older copy"):
            check_marks(*of_query, batch, again=again)


def test_marks_tell_how_a_batch_was_divided(topics: Topics) -> None:
    one, other = topics.make("one"), topics.make("other")
    sink = KafkaSink[int](topics.servers, lambda n: one if n < 2 else other)
    write(topics, sink, 0, [0], partition=3, division=FOUR)
    write(topics, sink, 1, [3], partition=3, division=FOUR)
    writes._kept.clear()
    write(topics, sink, 1, [3], partition=3, division=FOUR)  # which waits until the transaction before has ended
    mark = newest_mark(sink, f"windrow-{topics.prefix}-out-3", 10)
    assert mark is not None
    # It stays in the topic of the first one, where brokers tell that one is about to come.
    assert (mark.batch, mark.division, mark.topic) == (1, FOUR, one)
    assert len(topics.committed(other)) == 1
    check(topics, sink, 1, FOUR)
    check(topics, sink, 2, "2 partitions, cores=2")
    for division in ("2 partitions, cores=2", "4 partitions, cores=3", "4 partitions"):
        message = rf"divided differently now\n +given: +batch 1 of (.|\n)*: {division}\n.* {FOUR}, as when .*out-3 "
        with pytest.raises(SinkError, match=message):
            check(topics, sink, 1, division)


def test_marks_of_earlier_versions_tell_the_number_of_partitions(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic)
    write(topics, sink, 0, [0], division="4")
    write(topics, sink, 0, [0], partition=1, division="")
    check(topics, sink, 0, "4 partitions, cores=3")
    with pytest.raises(SinkError, match=r"4 partitions, as when"):
        check(topics, sink, 0, "5 partitions, cores=3")


@pytest.mark.parametrize("form", ["one topic", "by a function"])
def test_a_transaction_that_is_about_to_end_is_waited_for(topics: Topics, form: str) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic if form == "one topic" else lambda _: topic)
    pending = abandoned(topics, sink, 0, [1])
    producer = pending._producer
    assert producer is not None
    place = client_library().TopicPartition(topic, 0, 0, metadata="2 token")
    producer.client.send_offsets_to_transaction([place], producer._group, 10)
    name = f"windrow-{topics.prefix}-out-0"
    with pytest.raises(client_library().KafkaException, match="UNSTABLE_OFFSET_COMMIT"):
        newest_mark(sink, name, 0.05, [topic])
    # Nobody is going to end it: the check does.
    check(topics, sink, 0, "3 partitions")
    assert newest_mark(sink, name, 0.05, [topic]) is None
    with pytest.raises(SinkError, match="another task has taken over"):
        pending.finish()
    pending.close()


def test_a_coordinator_that_has_just_become_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = client_library(), list[float]()

    def newest(sink: object, name: str, patience: float, topics: object) -> None:
        asked.append(patience)
        if len(asked) == 1:
            raise client.KafkaException(client.KafkaError(client.KafkaError.COORDINATOR_NOT_AVAILABLE))

    monkeypatch.setattr(writes, "newest_mark", newest)
    assert writes._settled_mark(KafkaSink[int]("127.0.0.1:1", "out"), "name", ["out"]) is None
    assert asked == [writes._PATIENCE, writes._SECONDS]


def test_a_broker_is_asked_for_marks_once_it_is_their_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    # librdkafka ends the process where another broker answers a request for offsets.
    client, calls = client_library(), list[str]()

    class Admin:
        def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Any]:
            calls.append("describe")
            description: Future[Any] = Future()
            errors = {1: client.KafkaError.NOT_COORDINATOR, 2: client.KafkaError.GROUP_ID_NOT_FOUND}
            description.set_exception(client.KafkaException(client.KafkaError(errors[len(calls)])))
            return dict.fromkeys(groups, description)

        def list_consumer_group_offsets(self, requests: list[Any], **_: object) -> dict[str, Any]:
            calls.append("offsets")
            offsets: Future[Any] = Future()
            offsets.set_result(requests[0])
            return {requests[0].group_id: offsets}

    monkeypatch.setattr(writes, "admin_client", lambda options: (Admin(), []))
    assert newest_mark(KafkaSink[int]("127.0.0.1:1", "out"), "name", 10) is None
    assert calls == ["describe", "describe", "offsets"]


def test_a_task_without_elements_asks_no_broker(topics: Topics) -> None:
    write(topics, KafkaSink[int]("127.0.0.1:1", "out"), 0, [])


@pytest.mark.parametrize(("limit", "size"), [("20000", 50_000), ("5000000", 2_000_000)])
def test_a_record_that_is_too_large_is_named(topics: Topics, limit: str, size: int) -> None:
    topic = topics.make("out", settings={"max.message.bytes": limit})
    sink = KafkaSink[str](topics.servers, topic, key=lambda text: text[0], value_format="text")
    with pytest.raises(SinkError, match="Kafka refuses a record of a sink, as it is too large") as caught:
        run(sink, ["a" * 300, "b" * size, "c"])
    assert f"{size + 1} bytes for {topic}, key b'b', value b'bbbb" in str(caught.value)
    assert str(caught.value.where).startswith("p.2.sink, ")
    assert len(str(caught.value)) < 2000
    run(sink, ["d"])
    assert [record.key for record in topics.read(topic, 1)] == [b"d"]


class Pending(list[Any]):
    """Stands for a list in a callback that the client calls while a fatal error of its own is pending.

    Python runs the callback, and finds the error behind the first call of C in it: after one fenced flush of ten.
    """

    def append(self, item: Any) -> None:
        super().append(item)
        error = client_library().KafkaException("the producer is fenced")
        raise SystemError("append of a list returned a result with an exception set") from error


def test_a_fatal_error_is_not_hidden_by_a_record_that_was_refused() -> None:
    failed = Pending()
    with pytest.raises(client_library().KafkaException, match="the producer is fenced"):
        writes._noting(failed)("refused", "the record")
    assert failed == [("refused", "the record")]


@pytest.mark.usefixtures("soon_absent")
def test_a_topic_that_is_not_there(topics: Topics) -> None:
    absent = f"{topics.prefix}-absent"
    for sink in (KafkaSink[int](topics.servers, absent), KafkaSink[int](topics.servers, lambda _: absent)):
        with pytest.raises(SinkError, match=rf"the topic of a sink is not there\n +given: .*{absent}(.|\n)*p\.2\.sink"):
            run(sink, [1])


def test_a_topic_that_comes_while_the_run_lasts(topics: Topics) -> None:
    one = topics.make("one")
    made: list[str] = []

    def topic_of(number: int) -> str:
        if number == 5000 and not made:
            made.append(topics.make("late"))
        return made[0] if number >= 5000 else one

    sink = KafkaSink[int](topics.servers, topic_of)
    writer = task(topics, sink, 0)
    for begin in range(0, 6000, 1000):
        writer.write(range(begin, begin + 1000))
    writer.finish()
    assert len(topics.committed(made[0])) == 1000


def test_brokers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_errors, "PATIENCE", 0.5)
    sink = KafkaSink[int]("127.0.0.1:1", "out", options={"sasl.password": "hunter22"})
    with pytest.raises(SinkError, match=r"no broker of Kafka answers to a sink\n(.|\n)*refused(.|\n)*p\.2") as caught:
        run(sink, [1])
    assert "hunter22" not in str(caught.value)


def test_what_the_client_and_the_brokers_refuse(topics: Topics) -> None:
    topic = topics.make("out")
    with pytest.raises(SinkError, match=r'No such configuration property: "acs"'):
        run(KafkaSink[int](topics.servers, topic, options={"acs": "all"}), [1])
    with pytest.raises(SinkError, match=r"INVALID_TRANSACTION_TIMEOUT(.|\n)*transaction\.max\.timeout\.ms"):
        run(KafkaSink[int](topics.servers, topic, options={"transaction.timeout.ms": "1000000"}), [1])


def test_a_transaction_that_lasts_too_long_is_told(topics: Topics) -> None:
    topic = topics.make("out")
    sink = KafkaSink[int](topics.servers, topic, options={"transaction.timeout.ms": "1000"})
    late = abandoned(topics, sink, 0, [1])
    late._begun -= 1  # the broker ends it within ten seconds; here another producer does
    write(topics, sink, 0, [1])
    with pytest.raises(SinkError, match=r"lasted longer than it may\n +given: .* s\n +expected: +at most 1 s"):
        late.finish()
    late.close()


def test_a_reader_of_all_sees_what_was_taken_back(topics: Topics) -> None:
    """The tests above see nothing of it since they read what is committed, and not since nothing was written."""
    topic = topics.make("out")
    abandoned(topics, KafkaSink[int](topics.servers, topic), 0, [1]).close()
    assert topics.offsets_of(topic) >= [1]
    topics.send(topic, [Record(b"2")])
    assert topics.values(topic, 1) == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": lambda text: text}, r"the key of a record is text(.|\n)*given: +'\\ud800'"),
        ({"value_format": "text"}, "the value of a record is text"),
        ({"topic": lambda text: text}, r"a name\n +given: +'\\ud800' for element"),
        ({"topic": lambda text: ""}, "a name\n +given: +'' for element"),
        ({"topic": lambda text: "a\0b"}, "of 1 to 249 letters"),
    ],
)
def test_texts_that_kafka_does_not_take(topics: Topics, options: Any, message: str) -> None:
    sink = KafkaSink[str](topics.servers, **{"topic": topics.make("out"), "value_format": "json", **options})
    with pytest.raises(InvalidArgumentError, match=message):
        run(sink, ["\ud800"])

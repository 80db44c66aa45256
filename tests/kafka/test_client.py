"""Kafka's topics read by confluent-kafka in the interpreter, against a broker."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.kafka.topics import Record, Topics, in_json
from windrow import OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow.connectors import HybridSource, SourceSwitch
from windrow.errors import InvalidArgumentError, MalformedRecordError, SourceError, UnsupportedOperationError
from windrow.kafka import KafkaRecord, KafkaRecordSource, KafkaSource
from windrow.sinks import CollectSink
from windrow.sources import MalformedRecord
from windrow.windows import TumblingEventTimeWindows
from windrow_kafka import brokers as topic_brokers
from windrow_kafka import faults as kafka_errors
from windrow_kafka import topics as topic_reads
from windrow_kafka.brokers import TopicBrokers
from windrow_kafka.reader import TopicReader
from windrow_kafka.topics import TopicReads
from windrow_runtime.connectors.hybrid.reader import HybridReader
from windrow_runtime.inputs.offsets import Offsets, Range, Reads
from windrow_runtime.local import LocalRunner

# Any in this module: options of sources of every type.

MALFORMED = OutputTag("malformed", MalformedRecord)


def numbers(topics: Topics, topic: str | Sequence[str] | re.Pattern[str], **options: Any) -> KafkaSource[int]:
    return KafkaSource(topics.servers, topic, int, **{"starting_offsets": "earliest", **options})


def collected(source: Any) -> list[Any]:
    sink = CollectSink[Any]()
    return LocalRunner().run(Pipeline("p", from_source(source, name="in").sink_to(sink)), drain=False).collected(sink)


def planned(source: KafkaSource[int]) -> TopicReads:
    step = Pipeline("p", from_source(source, name="in").sink_to(CollectSink[int]())).steps[0]
    return TopicReader(source, step).reads()


def test_all_partitions_are_read_as_far_as_they_reach(topics: Topics) -> None:
    topic = topics.make("in", 3)
    for partition in range(3):
        topics.send(topic, in_json(range(partition, 30, 3)), partition=partition)
    assert sorted(collected(numbers(topics, topic))) == list(range(30))
    assert collected(numbers(topics, topic, starting_offsets="latest")) == []


@pytest.mark.parametrize("most", [1, 7, 100])
def test_batches_have_at_most_as_many_records_as_the_source_says(topics: Topics, most: int) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, in_json(range(20)))
    topics.send(topic, in_json(range(20, 25)), partition=1)
    read = planned(numbers(topics, topic, max_offsets_per_batch=most))
    counts = [sum(each.end - each.start for each in ranges) for ranges, _, _ in read.to_the_end()]
    assert sum(counts) == 25
    # Each partition that has records is read on, so that none starves.
    assert max(counts) <= max(most, 2)
    assert sorted(collected(numbers(topics, topic, max_offsets_per_batch=most))) == list(range(25))


def test_a_backlog_is_read_in_batches_that_grow_with_the_tasks(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reads, "RECORDS_OF_A_TASK", 4)
    topic = topics.make("in")
    topics.send(topic, in_json(range(25)))

    def batches(read: Reads) -> list[int]:
        return [sum(each.end - each.start for each in ranges) for ranges, _, _ in read.to_the_end()]

    usual, unbounded = planned(numbers(topics, topic)), planned(numbers(topics, topic, max_offsets_per_batch="all"))
    assert batches(usual) == [4, 4, 4, 4, 4, 4, 1]
    assert batches(usual.shared_by(3, divided=True)) == [12, 12, 1]
    assert batches(unbounded.shared_by(3, divided=True)) == [25]
    assert collected(numbers(topics, topic)) == list(range(25))


def test_tasks_share_a_partition_in_the_order_of_its_offsets(topics: Topics) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, in_json(range(20)))
    topics.send(topic, in_json(range(20, 25)), partition=1)
    whole = planned(numbers(topics, topic))
    end = whole.advance({}, whole.latest())
    first, second = whole.ranges({}, end)

    def shares(least: int, **options: Any) -> list[Range]:
        read = planned(numbers(topics, topic, **options)).shared_by(5, divided=True)
        return replace(read, least=least).ranges({}, end)

    parts = [first._replace(start=start, end=start + 5) for start in range(0, 20, 5)]
    assert shares(1) == [*parts, second]
    assert shares(8) == [first._replace(end=10), first._replace(start=10), second]
    assert shares(25) == shares(1, on_lost_offsets="latest") == [first, second]
    found = [value for part in shares(1) for rows in whole.read(part) for value in rows.values]
    assert found == list(range(25))


def test_records_with_all_that_kafka_knows(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, [Record(b"7", b"key", [("a", b"x"), ("b", None)], 1_700_000_000_123), Record(b"8", None)])
    source = KafkaRecordSource(topics.servers, topic, int, starting_offsets="earliest")
    first, second = collected(source)
    at = datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert first == KafkaRecord(b"key", 7, topic, 0, 0, at, (("a", b"x"), ("b", None)))
    assert (second.key, second.value, second.offset, second.headers) == (None, 8, 1, ())


def test_values_that_do_not_fit_go_where_the_source_says(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, [Record(b"1"), Record(b"x"), Record(None), Record(b"2")])
    stream = from_source(numbers(topics, topic, on_malformed=MALFORMED))
    values, malformed = CollectSink[int](), CollectSink[MalformedRecord]()
    pipeline = Pipeline("p", stream.sink_to(values), stream.get_side_output(MALFORMED).sink_to(malformed))
    result = LocalRunner().run(pipeline, drain=False)
    assert result.collected(values) == [1, 2]
    origins = [f"{topic}, partition 0, offset {offset}" for offset in (1, 2)]
    assert [each.origin for each in result.collected(malformed)] == origins
    with pytest.raises(MalformedRecordError, match=origins[0]):
        collected(numbers(topics, topic))
    text = KafkaSource(topics.servers, topic, str, value_format="text", starting_offsets="earliest",
                       on_malformed="drop")  # fmt: skip
    assert collected(text) == ["1", "x", "2"]


def test_a_time_to_begin_at(topics: Topics) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, [Record(str(second).encode(), timestamp=second * 1_000 + 1) for second in range(1, 10)])
    begin = datetime.fromtimestamp(5, UTC)
    assert collected(numbers(topics, topic, starting_offsets=begin)) == [5, 6, 7, 8, 9]
    assert collected(numbers(topics, topic, starting_offsets=datetime.now(UTC))) == []
    everything = collected(numbers(topics, topic))
    assert collected(numbers(topics, topic, starting_offsets=datetime(1, 1, 1, tzinfo=UTC))) == everything != []


def test_a_topic_with_an_end_is_drained(topics: Topics) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, in_json(range(0, 20, 2)))
    topics.send(topic, in_json(range(1, 20, 2)), partition=1)
    sums = CollectSink[int]()
    timed = from_source(numbers(topics, topic, ending_offsets="latest"), name="in").assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number * 1_000
    )
    windows = timed.key_by(lambda number: 0).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    pipeline = Pipeline("p", windows.reduce(operator.add).sink_to(sums))
    # The last window fires, since the stream ends.
    assert LocalRunner().run(pipeline).collected(sums) == [sum(range(10)), sum(range(10, 20))]
    with pytest.raises(UnsupportedOperationError, match=r"without an end cannot be drained(.|\n)*ending_offsets="):
        LocalRunner().run(Pipeline("p", from_source(numbers(topics, topic)).sink_to(CollectSink[int]())))


def test_a_run_with_an_end_leaves_what_comes_meanwhile_to_the_next(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(5)))
    source = numbers(topics, topic, ending_offsets="latest", max_offsets_per_batch=3)
    read = planned(source)
    assert read.is_bounded
    latest = read.latest()
    topics.send(topic, in_json(range(5, 10)))
    topics.grow(topic, 2)
    topics.send(topic, in_json([10]), partition=1)
    found, start = list[int](), dict[str, Any]()
    while read.ranges(start, end := read.advance(start, read.latest())):  # as a stream on Spark asks
        is_open = bool(read.open_partitions(end, latest).open)
        assert is_open == (end[f"{topic}/0"][1] < 5)
        found += taken(read, start, end)
        start = dict(end)
    assert found == [0, 1, 2, 3, 4]
    again = planned(source)  # which goes on behind them
    while again.ranges(start, end := again.advance(start, again.latest())):
        found += taken(again, start, end)
        start = dict(end)
    assert sorted(found) == list(range(11))


def test_a_time_to_end_at(topics: Topics) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, [Record(str(second).encode(), timestamp=second * 1_000) for second in range(1, 10)])

    def until(second: int) -> KafkaSource[int]:
        return numbers(topics, topic, ending_offsets=datetime.fromtimestamp(second, UTC))

    assert collected(until(5)) == [1, 2, 3, 4]
    assert collected(until(1)) == []
    assert collected(until(100)) == list(range(1, 10))
    between = numbers(
        topics, topic, starting_offsets=datetime.fromtimestamp(3, UTC), ending_offsets=datetime.fromtimestamp(5, UTC)
    )
    assert collected(between) == [3, 4]
    # An earlier run has read more.
    read = planned(until(3))
    reached: Offsets = {f"{topic}/0": [0, 7], f"{topic}/1": [0, 0]}
    latest = read.latest()
    assert read.advance(reached, latest) == reached
    assert not read.open_partitions(reached, latest).open
    # It has read more of a topic that is gone.
    read = planned(numbers(topics, topic, ending_offsets=datetime.now(UTC), on_lost_offsets="earliest"))
    gone: Offsets = {f"{topic}/0": [0, 70, "another"]}
    end = read.advance(gone, read.latest())
    assert taken(read, gone, end) == list(range(1, 10))
    assert end[f"{topic}/0"][:2] == [0, 9]


def test_a_topic_with_an_end_and_then_another(topics: Topics) -> None:
    history, live = topics.make("history", 2), topics.make("live")
    topics.send(history, in_json(range(10)))
    topics.send(history, in_json(range(10, 20)), partition=1)
    topics.send(live, in_json(range(20, 30)))
    first = numbers(topics, history, ending_offsets="latest", max_offsets_per_batch=3)
    switches: list[SourceSwitch] = []

    def following(switch: SourceSwitch) -> KafkaSource[int]:
        switches.append(switch)
        return numbers(topics, live)

    for part in (numbers(topics, live), following):
        found = collected(HybridSource(first).then(part))
        assert (sorted(found[:20]), found[20:]) == (list(range(20)), list(range(20, 30)))
    assert switches[0].offsets == {f"{history}/0": 10, f"{history}/1": 10}
    assert HybridSource(first).then(first).is_bounded
    with pytest.raises(InvalidArgumentError, match="topics with ending_offsets"):
        HybridSource(numbers(topics, history)).then(first)


def test_aborted_and_open_transactions_and_their_markers(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json([1]))
    for committed, value in ((False, 2), (True, 3), (False, 4)):
        producer = topics.producer(**{"transactional.id": topics.prefix})
        producer.init_transactions(10)
        producer.begin_transaction()
        topics.produce(producer, topic, Record(str(value).encode()))
        producer.flush(10)
        (producer.commit_transaction if committed else producer.abort_transaction)(10)
    topics.read(topic, 2)
    # Behind the last record there is a marker, and the offsets of batches end there.
    assert collected(numbers(topics, topic)) == [1, 3]
    assert collected(numbers(topics, topic, max_offsets_per_batch=1)) == [1, 3]
    assert collected(numbers(topics, topic, options={"isolation.level": "read_uncommitted"})) == [1, 2, 3, 4]

    producer = topics.producer(**{"transactional.id": f"{topics.prefix}-open"})
    producer.init_transactions(10)
    producer.begin_transaction()
    topics.produce(producer, topic, Record(b"5"))
    producer.flush(10)
    monkeypatch.setattr(topic_brokers, "_SECONDS_TO_SETTLE", 0.5)
    assert collected(numbers(topics, topic)) == [1, 3]
    producer.commit_transaction(10)
    topics.read(topic, 3)  # the broker writes the marker a moment later
    assert collected(numbers(topics, topic)) == [1, 3, 5]


def test_topics_by_pattern_and_partitions_that_come_later(topics: Topics) -> None:
    one, other = topics.make("in-1"), topics.make("in-2")
    topics.send(one, in_json([1]))
    topics.send(other, in_json([2]))
    topics.send(topics.make("out"), in_json([3]))
    assert sorted(collected(numbers(topics, re.compile(f"{re.escape(topics.prefix)}-in-.*")))) == [1, 2]
    assert sorted(collected(numbers(topics, [one, other]))) == [1, 2]

    read = planned(numbers(topics, re.compile(f"{re.escape(topics.prefix)}-in-.*"), starting_offsets="latest"))
    before = read.advance({}, read.latest())
    assert read.ranges({}, before) == []
    topics.send(topics.make("in-3"), in_json([4]))
    after = read.advance(before, read.latest())
    (range_,) = read.ranges(before, after)
    assert (range_.start, range_.end) == (0, 1)  # from the first record on: nobody has left it out


def test_a_client_that_has_read_a_topic_finds_its_new_partitions(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(3)))
    assert collected(numbers(topics, topic)) == [0, 1, 2]
    topics.grow(topic, 2)
    topics.send(topic, in_json(range(3, 6)), partition=1)
    assert collected(numbers(topics, topic)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("soon_absent")
def test_a_topic_that_is_not_there_is_named(topics: Topics) -> None:
    with pytest.raises(
        SourceError,
        match=rf"the topic of a source is not there\n +given: .*{topics.prefix}-no: .*\(UNKNOWN(.|\n)*p\.1\.in",
    ):
        collected(numbers(topics, f"{topics.prefix}-no"))


def test_brokers_that_do_not_answer_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_errors, "PATIENCE", 0.5)
    source = KafkaSource("127.0.0.1:1", "in", int, options={"sasl.password": "hunter22"})
    with pytest.raises(
        SourceError,
        match=r"no broker of Kafka answers to a source\n +given: .*the list of topics: .*refused(.|\n)*p\.1\.in",
    ) as caught:
        collected(source)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("on_lost", ["fail", "earliest", "latest"])
def test_records_that_are_gone(topics: Topics, on_lost: str) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(10)))
    read = planned(numbers(topics, topic, max_offsets_per_batch=2, on_lost_offsets=on_lost))
    start = read.advance({}, read.latest())
    topics.expire(topic, 5)
    if on_lost == "fail":
        message = rf"not in the topic any more\n +given: +{topic}, partition 0, offsets 2 to 4\n(.|\n)*on_lost_offsets="
        with pytest.raises(SourceError, match=message):
            read.advance(start, read.latest())
        return
    found: list[int] = []
    while read.ranges(start, end := read.advance(start, read.latest())):
        found += taken(read, start, end)
        start = end
    assert found == ([5, 6, 7, 8, 9] if on_lost == "earliest" else [6, 7, 8, 9])


def made_anew(topics: Topics, topic: str, count: int) -> None:
    """Has another topic with this name, whose records are the negative numbers."""
    topics.delete(topic)
    topics.make(topic.removeprefix(f"{topics.prefix}-"))
    topics.send(topic, in_json(range(-1, -count - 1, -1)))


def taken(read: TopicReads, start: Offsets, end: Offsets) -> list[int]:
    return [value for each in read.ranges(start, end) for rows in read.read(each) for value in rows.values]


@pytest.mark.parametrize("count", [2, 15])  # more and fewer than were read of the one before
@pytest.mark.parametrize("plans", ["another run", "the next batch", "the next batch of a drain"])
def test_a_topic_that_was_made_anew(topics: Topics, plans: str, count: int) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(10)))
    for on_lost, expected in (("fail", []), ("earliest", list(range(-1, -count - 1, -1))), ("latest", [])):
        read = planned(numbers(topics, topic, max_offsets_per_batch=20, on_lost_offsets=on_lost))
        start: Offsets = read.advance({}, latest := read.latest())
        before = topics.offsets_of(topic)
        made_anew(topics, topic, count)
        if plans == "another run":
            read = planned(numbers(topics, topic, max_offsets_per_batch=20, on_lost_offsets=on_lost))
        if plans != "the next batch of a drain":
            latest = read.latest()
        if on_lost == "fail":
            message = (
                rf"made anew after it was read\n +given: +{topic}, partition 0, read up to offset 10: its id was \S+, "
            )
            with pytest.raises(SourceError, match=rf"{message}(.|\n)*on_lost_offsets="):
                read.advance(start, latest)
        else:
            end = read.advance(start, latest)
            assert taken(read, start, end) == expected
            assert read.advance(end, latest) == end
            assert not read.open_partitions(end, latest).waiting
        made_anew(topics, topic, before[0])


@pytest.mark.parametrize(("on_lost", "expected"), [("earliest", [-1, -2]), ("latest", []), ("fail", None)])
def test_a_batch_that_runs_again_reads_no_other_topic(topics: Topics, on_lost: str, expected: list[int] | None) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(2)))
    source = numbers(topics, topic, on_lost_offsets=on_lost)
    read = planned(source)
    end = read.advance({}, read.latest())
    (range_,) = read.ranges({}, end)
    made_anew(topics, topic, 15)
    read = planned(source)  # a checkpoint has the offsets, and no more
    assert read.ranges({}, end) == [range_]
    if expected is None:
        given = rf"{topic}, partition 0, offsets 0 to 2 are read: its id was {range_.incarnation}, and is \S+\n"
        with pytest.raises(SourceError, match=rf"made anew after it was read\n +given: +{given}(.|\n)*p\.1\.in"):
            list(read.read(range_))
    else:
        assert list(read.read(range_)) == []
        # The next batch reads it, or leaves it out.
        assert taken(read, end, read.advance(end, read.latest()))[:2] == expected
    # A checkpoint of an earlier version has no ids.
    assert taken(read, {}, {name: offsets[:2] for name, offsets in end.items()}) == [-1, -2]


def test_a_batch_of_a_part_that_is_a_topic_runs_again(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(2)))
    hybrid = HybridSource(numbers(topics, topic, ending_offsets="latest")).then(numbers(topics, topics.make("next")))
    step = Pipeline("p", from_source(hybrid, name="in").sink_to(CollectSink[int]())).steps[0]
    read = HybridReader(hybrid, step).reads()
    (range_,) = read.ranges({}, read.advance({}, read.latest()))
    made_anew(topics, topic, 15)
    with pytest.raises(
        SourceError, match=rf"made anew after it was read\n +given: +{topic}, partition 0, offsets 0 to"
    ):
        list(read.read(range_))


def test_a_checkpoint_without_ids_goes_on_and_gets_them(topics: Topics) -> None:
    topic = topics.make("in", 2)
    topics.send(topic, in_json(range(10)))
    read = planned(numbers(topics, topic))
    start: Offsets = {f"{topic}/0": [0, 4], f"{topic}/1": [0, 0]}
    end = read.advance(start, read.latest())
    assert taken(read, start, end) == [4, 5, 6, 7, 8, 9]
    assert (end[f"{topic}/0"][:2], len(end[f"{topic}/0"]), end[f"{topic}/1"]) == ([0, 10], 3, [0, 0])
    # Brokers that know no ids tell that it is shorter.
    topics.delete(topic)
    topics.make("in", 2)
    with pytest.raises(SourceError, match=r"made anew, or brokers lost records\n.*, offset 4, and it ends at 0\n"):
        read.advance(start, read.latest())


@pytest.mark.usefixtures("soon_absent")
def test_a_topic_that_is_deleted_between_batches(topics: Topics) -> None:
    kept, gone = topics.make("in-1"), topics.make("in-2")
    pattern = re.compile(f"{re.escape(topics.prefix)}-in-.*")
    for topic in (kept, gone):
        topics.send(topic, in_json(range(10)))
    reads = {
        (form, on_lost): planned(numbers(topics, form, max_offsets_per_batch=4, on_lost_offsets=on_lost))
        for form in (pattern, (kept, gone))
        for on_lost in ("fail", "earliest")
    }
    first = {key: (latest := read.latest(), read.advance({}, latest)) for key, read in reads.items()}
    topics.delete(gone)
    for (form, on_lost), read in reads.items():
        latest, start = first[form, on_lost]
        if form is pattern and on_lost == "earliest":
            end: Offsets = start
            while ranges := read.ranges(end, following := read.advance(end, latest)):
                assert {each.partition for each in ranges} == {f"{kept}/0"}
                end = following
            assert end[f"{kept}/0"][1] == 10
            assert not read.open_partitions(end, latest).waiting
            # It is lost once: a run that refuses losses goes on from there.
            refusing = planned(numbers(topics, pattern))
            assert refusing.ranges(end, refusing.advance(end, refusing.latest())) == []
        else:
            for is_planned_anew in (False, True):
                with pytest.raises(SourceError, match=rf"deleted after it was found\n +given: .*{gone}: .*UNKNOWN"):
                    read.advance(start, read.latest() if is_planned_anew else latest)


@pytest.mark.usefixtures("soon_absent")
@pytest.mark.parametrize(
    ("on_lost", "anew"),  # how many records another topic of this name has, if there is one
    [("fail", None), ("fail", 0), ("fail", 40_000), ("earliest", None), ("latest", 0), ("earliest", 40_000)],
)
def test_a_topic_that_is_deleted_while_a_batch_reads_it(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, on_lost: str, anew: int | None
) -> None:
    monkeypatch.setattr(topic_reads, "_SECONDS_OF_TRUST", 0.2)
    topic = topics.make("in")
    count = 40_000  # of 1,000 bytes: more than a client fetches beforehand
    topics.send(topic, [Record(b'"%d"' % number + b" " * 1_000) for number in range(count)])
    source = KafkaSource(topics.servers, topic, str, starting_offsets="earliest", on_lost_offsets=on_lost)  # type: ignore[arg-type]  # parametrised
    (step, _) = Pipeline("p", from_source(source, name="in").sink_to(CollectSink[str]())).steps
    read = TopicReader(source, step).reads()
    (range_,) = read.ranges({}, read.advance({}, read.latest()))
    batches = read.read(range_)
    found = len(next(batches).values)
    topics.delete(topic)
    if anew is not None:
        topics.make("in")
        topics.send(topic, [Record(b'"another"')] * anew)
    message = f"deleted after it was found\n.*records of {topic}/0"
    if anew is not None:
        message = rf"made anew after it was read\n.*{topic}, partition 0, offsets 0 to {count} are read: its id was"
    if on_lost == "fail":
        with pytest.raises(SourceError, match=message):
            sum(len(rows.values) for rows in batches)
    else:
        found += sum(len(rows.values) for rows in batches)
        assert found < count
    if on_lost == "fail":
        with pytest.raises(SourceError, match=message):
            list(read.read(range_))
    else:
        assert list(read.read(range_)) == []


@pytest.mark.parametrize("on_lost", ["fail", "earliest", "latest"])
def test_a_source_begins_at_the_latest_offsets_that_it_has_asked_for(
    on_lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that come while the first batch is planned are the next batch's."""
    read = planned(KafkaSource("a:1", "t", int, on_lost_offsets=on_lost))  # type: ignore[arg-type]  # parametrised
    monkeypatch.setattr(TopicBrokers, "offsets", lambda brokers, names, which: dict.fromkeys(names, 105))
    assert read.advance({}, {"t/0": 100}) == {"t/0": [100, 100]}


def test_records_that_expired_after_they_were_planned_are_told(topics: Topics) -> None:
    topic = topics.make("in")
    topics.send(topic, in_json(range(10)))
    read = planned(numbers(topics, topic))
    (range_,) = read.ranges({}, read.advance({}, read.latest()))
    topics.expire(topic, 5)
    with pytest.raises(
        SourceError, match=rf"not in the topic any more\n +given: +{topic}, partition 0, offsets 0 to 4\n"
    ):
        list(read.read(range_))

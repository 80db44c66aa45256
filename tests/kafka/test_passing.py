"""Errors of Kafka that pass are asked again for a while, and others told at once, by a client that answers as told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from windrow import Pipeline, from_source
from windrow.errors import SinkError, SourceError
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow_kafka import brokers
from windrow_kafka import faults as kafka_errors
from windrow_kafka import topics as reads
from windrow_kafka.client import client_library
from windrow_kafka.faults import asked_again, refused_error
from windrow_kafka.reader import TopicReader
from windrow_kafka.topics import TopicReads
from windrow_runtime.inputs.batches import elements_of
from windrow_runtime.inputs.offsets import Range

# Any in this module: confluent-kafka has no types.

pytestmark = pytest.mark.usefixtures("client")

PASSING = (
    "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE",
    "OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNSTABLE_OFFSET_COMMIT", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
    "_NOENT", "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE",
)  # fmt: skip
LASTING = (
    "TOPIC_AUTHORIZATION_FAILED", "_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_VERSION",
    "INVALID_TXN_STATE", "PRODUCER_FENCED", "MSG_SIZE_TOO_LARGE", "_INVALID_ARG",
)  # fmt: skip


def failure(name: str) -> Any:
    """What the client raises for an error of this name."""
    client = client_library()
    return client.KafkaException(client.KafkaError(getattr(client.KafkaError, name)))


class Clock:
    """Stands for the module ``time``: it moves by what is slept, and by what :class:`Answers` take."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which errors pass."""
    own = Clock()
    monkeypatch.setattr(kafka_errors, "time", own)
    return own


class Answers:
    """Answers requests one after the other: exceptions are raised."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> Any:
        self.seconds.append(seconds)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("name", PASSING)
def test_an_error_that_passes_is_asked_again(name: str) -> None:
    answers = Answers(failure(name), failure(name), 7)
    assert asked_again(answers) == 7
    assert answers.seconds == [2, 4, 8]  # a request that is slow gets more time


@pytest.mark.parametrize("slowly", [False, True])  # whether each request takes all the seconds that it may
@pytest.mark.parametrize("name", PASSING)
def test_an_error_that_does_not_pass_in_time_is_raised(clock: Clock, name: str, slowly: bool) -> None:
    answers = Answers(failure(name))

    def ask(seconds: float) -> Any:
        clock.seconds += seconds if slowly else 0
        return answers(seconds)

    begin = clock.seconds
    with pytest.raises(client_library().KafkaException, match=name):
        asked_again(ask)
    taken = clock.seconds - begin
    assert kafka_errors.PATIENCE - 2 * kafka_errors._PAUSE <= taken <= kafka_errors.PATIENCE
    assert min(answers.seconds) > 0


@pytest.mark.parametrize("name", LASTING)
def test_an_error_that_does_not_pass_is_raised_at_once(name: str) -> None:
    answers = Answers(failure(name))
    with pytest.raises(client_library().KafkaException, match=name):
        asked_again(answers)
    assert len(answers.seconds) == 1


def test_a_topic_is_looked_for_before_it_is_told_absent(clock: Clock) -> None:
    assert asked_again(Answers(failure("UNKNOWN_TOPIC_OR_PART"), 7)) == 7
    begin = clock.seconds
    with pytest.raises(client_library().KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        asked_again(Answers(failure("UNKNOWN_TOPIC_OR_PART")))
    assert 2 < clock.seconds - begin <= kafka_errors._SECONDS_TO_APPEAR < kafka_errors.PATIENCE


@pytest.mark.parametrize(
    ("name", "of_source", "of_sink"),
    [
        ("_TRANSPORT", "no broker of Kafka answers to a source", "no broker of Kafka answers to a sink"),
        ("FENCED_LEADER_EPOCH", "no leader for what a source asks", "no leader for what a sink asks"),
        ("TOPIC_AUTHORIZATION_FAILED", "does not let a source read", "does not let a sink write"),
        ("UNKNOWN_TOPIC_OR_PART", "the topic of a source is not there", "the topic of a sink is not there"),
        ("UNSUPPORTED_VERSION", "Kafka cannot be read", "Kafka cannot be written"),
        ("MSG_SIZE_TOO_LARGE", "Kafka cannot be read", "a record of a sink, as it is too large"),
        ("PRODUCER_FENCED", "Kafka cannot be read", "another task has taken over"),
    ],
)
def test_what_is_told_of_errors(name: str, of_source: str, of_sink: str) -> None:
    error = failure(name).args[0]
    options = {"sasl.password": "hunter22"}
    for end, kind, message in (
        (KafkaSource("a:1", "in", int, options=options), SourceError, of_source),
        (KafkaSink[int]("a:1", "in", options=options), SinkError, of_sink),
    ):
        told = refused_error(end, "p.1.in", error, "a question, hunter22")
        assert type(told) is kind
        assert message in str(told)
        assert f"({name})" in str(told.given)
        assert told.where == "p.1.in"
        assert told.hint
        assert "{" not in f"{told.expected}{told.hint}".replace("{'security.protocol': ...}", "")


def planned(**options: Any) -> TopicReads:
    source = KafkaSource("a:1", "in", str, value_format="text", starting_offsets="earliest", **options)
    step = Pipeline("p", from_source(source, name="in").sink_to(CollectSink[str]())).steps[0]
    return TopicReader(source, step).reads()


class Future:
    def __init__(self, answer: Callable[[], Any]) -> None:
        self.result = answer


class Place:
    def __init__(self, offset: int) -> None:
        self.offset = offset


@pytest.mark.parametrize("refused", ["UNKNOWN_LEADER_EPOCH", "_NOENT", -1001])
@pytest.mark.parametrize("which", ["earliest", "latest", datetime(2026, 1, 31, tzinfo=UTC)])
def test_offsets_are_asked_again(monkeypatch: pytest.MonkeyPatch, which: Any, refused: Any) -> None:
    answers = Answers(failure(refused) if isinstance(refused, str) else Place(refused), Place(5))
    admin = Admin(answers)
    monkeypatch.setattr(brokers, "admin_client", lambda options: (admin, []))
    assert planned()._brokers.offsets(["in/0"], which) == {"in/0": 5}
    assert len(answers.seconds) == 2
    assert admin.refreshed == isinstance(refused, str)  # of an error: the client knows leaders that are none any more


def test_no_record_is_as_late_as_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(Place(-1), Place(5))
    monkeypatch.setattr(brokers, "admin_client", lambda options: (Admin(answers), []))
    assert planned()._brokers.offsets(["in/0"], datetime(2026, 1, 31, tzinfo=UTC)) == {"in/0": 5}


class Admin:
    """Answers questions for offsets."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.refreshed = 0

    def list_offsets(self, places: dict[Any, Any], **given: Any) -> dict[Any, Future]:
        return {place: Future(lambda: self._answers(given["request_timeout"])) for place in places}

    def list_topics(self, timeout: float) -> None:
        self.refreshed += 1

    def poll(self, timeout: float) -> int:
        return 0


class Message:
    """A record, or an error."""

    def __init__(self, offset: int, name: str = "") -> None:
        self._offset, self._name = offset, name

    def offset(self) -> int:
        return self._offset

    def error(self) -> Any:
        return failure(self._name).args[0] if self._name else None

    def value(self) -> bytes:
        return b"%d" % self._offset


class Consumer:
    """Has ten records, and answers as told."""

    def __init__(self, ends: Answers, *portions: Sequence[Message]) -> None:
        self._ends, self._portions = ends, iter(portions)
        self.assigned: list[tuple[str, int, int]] = []

    def get_watermark_offsets(self, place: Any, timeout: float) -> Any:
        return self._ends(timeout)

    def assign(self, places: Any) -> None:
        self.assigned += [(each.topic, each.partition, each.offset) for each in places]

    def unassign(self) -> None:
        assert list(self._portions) == []  # all was read

    def consume(self, count: int, timeout: float) -> Sequence[Message]:
        return next(self._portions)


def values(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> Iterator[str]:
    monkeypatch.setattr(brokers.TopicBrokers, "consumer", lambda *_: consumer)
    for rows in planned().read(Range("in/0", 0, 3)):
        yield from elements_of(rows).values


def test_records_come_after_errors_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(
        Answers(failure("_TRANSPORT"), (0, 10)),
        [Message(0, "FENCED_LEADER_EPOCH")],
        [Message(0), Message(10, "_TRANSPORT")],  # an error is not the end, wherever it stands
        [Message(1), Message(2)],
    )
    assert list(values(monkeypatch, consumer)) == ["0", "1", "2"]
    assert consumer.assigned == [("in", 0, 0)]


@pytest.mark.parametrize("name", ["OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET", "UNKNOWN_TOPIC_OR_PART"])
def test_records_that_are_doubted_are_looked_for_and_read_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    consumer = Consumer(Answers((0, 10)), [Message(0), Message(1, name)], [Message(1), Message(2)])
    assert list(values(monkeypatch, consumer)) == ["0", "1", "2"]
    assert consumer.assigned == [("in", 0, 0), ("in", 0, 1)]  # a client stops at such an error


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((2, 10), r"not in the topic any more\n.*, offsets 1 to 1\n"),
        ((0, 2), r"lost records\n.*, offset 3, and it ends at 2\n"),
    ],
)
def test_records_that_brokers_have_no_more(monkeypatch: pytest.MonkeyPatch, ends: Any, message: str) -> None:
    consumer = Consumer(Answers((0, 10), ends), [Message(0), Message(1, "_AUTO_OFFSET_RESET")])
    with pytest.raises(SourceError, match=message):
        list(values(monkeypatch, consumer))


@pytest.mark.parametrize("on_lost", ["earliest", "latest"])
def test_a_batch_that_runs_again_reads_nothing_of_a_topic_that_ends_before_it(
    monkeypatch: pytest.MonkeyPatch, on_lost: str
) -> None:
    consumer = Consumer(Answers((0, 2)), [Message(0), Message(1)])
    monkeypatch.setattr(brokers.TopicBrokers, "consumer", lambda *_: consumer)
    assert list(planned(on_lost_offsets=on_lost).read(Range("in/0", 5, 8))) == []
    assert consumer.assigned == []  # a client would begin at the first record


class Topic:
    """What brokers tell of a topic."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id


@pytest.mark.parametrize("on_lost", ["earliest", "latest"])
def test_no_record_of_a_topic_that_was_made_anew_meanwhile_is_taken(
    monkeypatch: pytest.MonkeyPatch, on_lost: str
) -> None:
    """The next batch reads that topic, from its first record on."""
    ids = ["old"]

    class MadeAnew(Consumer):
        def consume(self, count: int, timeout: float) -> Sequence[Message]:
            if self.assigned and count < 3:  # the topic is made anew while the second portion is fetched
                ids[0] = "new"
            return super().consume(count, timeout)

    consumer = MadeAnew(Answers((0, 10)), [Message(0)], [Message(1)])
    monkeypatch.setattr(brokers.TopicBrokers, "consumer", lambda *_: consumer)
    monkeypatch.setattr(brokers.TopicBrokers, "described", lambda *_: {"in": Topic(ids[0])})
    read = planned(on_lost_offsets=on_lost)
    rows = [each for rows in read.read(Range("in/0", 0, 3, "old")) for each in elements_of(rows).values]
    assert rows == ["0"]


def test_an_error_among_records_that_does_not_pass_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(Answers((0, 10)), [Message(0), Message(1, "TOPIC_AUTHORIZATION_FAILED")])
    with pytest.raises(SourceError, match=r"does not let a source read\n +given: .*, in/0: (.|\n)*p\.1\.in"):
        list(values(monkeypatch, consumer))


def test_records_that_do_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_SECONDS_WITHOUT_RECORDS", -1.0)
    consumer = Consumer(Answers((0, 10)), [Message(0), Message(1, "LEADER_NOT_AVAILABLE")])
    with pytest.raises(SourceError, match=r"no broker sends(.|\n)* in/0, offsets 1 to 3: .*LEADER_NOT_AVAILABLE"):
        list(values(monkeypatch, consumer))

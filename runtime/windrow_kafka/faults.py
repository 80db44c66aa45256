"""Knows which errors of Kafka are temporary, so that calls are tried again, and has hints for the others."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from windrow.addresses.redaction import redact
from windrow.errors import SinkError, SourceError
from windrow.kafka import KafkaSink, TopicSource
from windrow_kafka.client import client_library

# Any in this module: confluent-kafka has no types, and topics have elements of every type.

T = TypeVar("T")

PATIENCE: Final = 30.0
"""How long a request is asked again while its error may pass, in seconds: a broker starts within it."""

_SECONDS_TO_APPEAR: Final = 3.0
"""How long a topic is looked for: a broker that has just started may not know of it yet."""

_FIRST_SECONDS: Final = 2.0
"""How long the first request may take; each further one has twice as long, so that a wrong login is told soon."""

_PAUSE: Final = 0.05


class _Refusal(NamedTuple):
    words: tuple[str, ...]  # in the names of errors
    seconds: float  # how long they may last and pass; 0: they do not pass
    message: str
    expected: str
    hint: str
    of_sinks: bool = False  # alone


LARGE: Final = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
ABSENT: Final = ("UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "INCONSISTENT_TOPIC_ID")
FENCED: Final = ("_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE")
UNSTABLE: Final = "UNSTABLE_OFFSET_COMMIT"
_WORDS_OF_SOURCES: Final = {"end": "source", "verb": "read", "done": "read"}
_SILENT: Final = ("_ALL_BROKERS_DOWN", "_RESOLVE", "TIMED_OUT", "_TRANSPORT", "NETWORK_EXCEPTION")
_MOVING: Final = (
    "LEADER_EPOCH",
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "BROKER_NOT_AVAILABLE",
    "OFFSET_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_CONTROLLER",
    "KAFKA_STORAGE_ERROR",
    "FETCH_SESSION",
    "STALE_",
    "THROTTLING_QUOTA_EXCEEDED",
    UNSTABLE,
    "_WAIT_COORD",
    "_WAIT_CACHE",
    "_NOENT",  # the client knows of no leader
)
_LOGIN: Final = ("AUTHENTICATION", "AUTHORIZATION_FAILED", "_SSL", "SASL")
_TABLE: Final = (
    _Refusal(
        LARGE,
        0,
        "Kafka refuses a record of a sink, as it is too large",
        "records within max.message.bytes of the topic and message.max.bytes of the sink",
        "raise these limits, or write smaller elements; nothing of the task was written",
        of_sinks=True,
    ),
    _Refusal(
        ABSENT,
        _SECONDS_TO_APPEAR,
        "the topic of a {end} is not there",
        "a topic that was made before, which this user may see",
        "make it, or correct its name; brokers with auto.create.topics.enable=true make that of a sink when it is "
        "written, and a source with a compiled pattern as topics takes those that come later, too",
    ),
    _Refusal(
        _SILENT,
        math.inf,
        "no broker of Kafka answers to a {end}",
        "a server that the driver and workers reach, within {patience:.0f} s",
        "look whether the brokers run, at the port, and at options={{'security.protocol': ...}}; with a checkpoint the "
        "next run goes on with this batch",
    ),
    _Refusal(
        FENCED,
        0,
        "another task has taken over a transaction of a Kafka sink",
        "one run of the query, and one task for each of its partitions",
        "nothing of the task was written; it is written when the batch runs again from the checkpoint",
        of_sinks=True,
    ),
    _Refusal(
        _MOVING,
        math.inf,
        "the brokers of Kafka have no leader for what a {end} asks",
        "a leader for each partition, and a coordinator for each group, within {patience:.0f} s",
        "look whether brokers are down, and at the disks of those that run; a broker that is alone needs 1 as "
        "transaction.state.log.replication.factor, transaction.state.log.min.isr and offsets.topic.replication.factor; "
        "with a checkpoint the next run goes on with this batch",
    ),
    _Refusal(
        ("_SSL",),
        0,
        "a {end} and the brokers of Kafka do not come together by TLS",
        "a certificate of the brokers that the {end} trusts, for the name by which it calls them",
        "the option ssl.ca.location names the file with the certificate of their authority; ssl.certificate.location "
        "and ssl.key.location are for brokers that ask the {end} for one",
    ),
    _Refusal(
        _LOGIN,
        0,
        "Kafka does not let a {end} {verb}",
        "a login that may describe and {verb} the topics; a sink has transactional ids and consumer groups that begin "
        "with windrow-",
        "the options of the {end} have the login; rights are given by the ACLs of the brokers",
    ),
    _Refusal(
        ("INVALID_TRANSACTION_TIMEOUT",),
        0,
        "the brokers allow no transactions of a Kafka sink that last so long",
        "a transaction.timeout.ms within transaction.max.timeout.ms of the brokers",
        "lower the one, or raise the other",
        of_sinks=True,
    ),
    _Refusal(
        ("",),
        0,
        "Kafka cannot be {done}",
        "brokers that list topics and offsets and take transactions, and options that librdkafka knows",
        "the servers and options of the {end} say where, and how",
    ),
)
"""What is told of errors, and how long they may last; the first row counts that has a word of the error's name."""


def is_of(error: Any, words: Iterable[str]) -> bool:
    """Returns whether the name of an error has one of some words."""
    return any(word in error.name() for word in words)


def may_pass(error: Any) -> bool:
    """Returns whether brokers that start, or that elect a leader, answer with an error for a while."""
    return _seconds(error) == math.inf


def _seconds(error: Any) -> float:
    return next(row.seconds for row in _TABLE if is_of(error, row.words))


def asked_again(ask: Callable[[float], T]) -> T:
    """Calls ``ask`` with the seconds that a request may take, and returns its result.

    It is called again while its error may pass, for :data:`PATIENCE` at most.
    """
    begin, seconds = time.monotonic(), min(_FIRST_SECONDS, PATIENCE)
    while True:
        try:
            return ask(seconds)
        except client_library().KafkaException as error:
            left = min(PATIENCE, _seconds(error.args[0])) - (time.monotonic() - begin) - _PAUSE
            if left <= 0:
                raise
        seconds = min(2 * seconds, left)
        time.sleep(_PAUSE)


@contextmanager
def reasons_told(client: Any, errors: deque[Any]) -> Iterator[None]:
    """Replaces the error of an unanswered request by the reason that the client has logged, such as a refused login."""
    errors.clear()
    try:
        yield
    except client_library().KafkaException as error:
        client.poll(0)
        # A copy: another question of the same client may add one while this is read.
        reasons = [each for each in tuple(errors) if each.name() != "_ALL_BROKERS_DOWN"]
        if is_of(error.args[0], _SILENT) and reasons:
            logins = [each for each in reasons if is_of(each, _LOGIN)]
            raise client_library().KafkaException((logins or reasons)[-1]) from None
        raise


@contextmanager
def kafka_errors(
    end: TopicSource[Any] | KafkaSink[Any],
    where: str,
    what: str,
    refused: Callable[[Any, str], SourceError | SinkError] | None = None,
) -> Iterator[None]:
    """Turns errors of the client into those for what a source or sink has asked, or what ``refused`` returns."""
    try:
        yield
    except client_library().KafkaException as error:
        # The error is not chained: its text may hold an option's value.
        raise (refused or partial(refused_error, end, where))(error.args[0], what) from None


def refused_error(end: TopicSource[Any] | KafkaSink[Any], where: str, error: Any, what: str) -> SourceError | SinkError:
    """Returns the error for what the brokers or the client refused; the text may hold an option's value."""
    is_sink = isinstance(end, KafkaSink)
    row = next(row for row in _TABLE if (is_sink or not row.of_sinks) and is_of(error, row.words))
    refused = f"{end.describe()}, {what}: {shown(end, error)}"
    words = {"end": "sink", "verb": "write", "done": "written"} if is_sink else _WORDS_OF_SOURCES
    message, expected, hint = (
        text.format(**words, patience=PATIENCE) for text in (row.message, row.expected, row.hint)
    )
    error_type = SinkError if is_sink else SourceError
    return error_type(message, given=refused, expected=expected, where=where, hint=hint)


def shown(end: TopicSource[Any] | KafkaSink[Any], error: Any) -> str:
    """Returns the text and the name of an error, without secrets."""
    return f"{redact(error.str(), end.secrets)} ({error.name()})"


def absent_topic(topic: str) -> Exception:
    """Returns the error that a broker has for a topic that is not there."""
    client = client_library()
    error: Exception = client.KafkaException(client.KafkaError(client.KafkaError.UNKNOWN_TOPIC_OR_PART, topic))
    return error

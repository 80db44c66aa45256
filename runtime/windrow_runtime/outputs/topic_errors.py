"""Turns what Kafka's brokers and client refuse a sink into errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from windrow.addresses.redaction import redact
from windrow.errors import SinkError
from windrow.kafka import KafkaSink
from windrow.plan import Step
from windrow_runtime.codecs.kafka_client import client_library

# Any in this module: confluent-kafka has no types, and sinks have elements of every type.

LARGE: Final = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_ABSENT: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")
_SILENT: Final = ("_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_TRANSPORT")
_LOGIN: Final = ("AUTHENTICATION", "AUTHORIZATION_FAILED", "_SSL")
FENCED: Final = ("_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE")
_TOLD: Final = (
    (
        LARGE,
        "Kafka refuses a record of a sink, as it is too large",
        "records within max.message.bytes of the topic and message.max.bytes of the sink",
        "raise these limits, or write smaller elements; nothing of the task was written",
    ),
    (
        _ABSENT,
        "the topic of a sink is not there",
        "a topic that was made before, which this user may see",
        "make it, or correct its name",
    ),
    (
        _SILENT,
        "no broker of Kafka answers to a sink",
        "a server that the driver and workers reach",
        "look whether the brokers run, at the port, and at options={'security.protocol': ...}; with a checkpoint the "
        "next run goes on with this batch",
    ),
    (
        _LOGIN,
        "Kafka does not let a sink write",
        "a login that may write to the topic, with transactional ids and consumer groups that begin with windrow-",
        "the options of the sink have the login; rights are given by the ACLs of the brokers",
    ),
    (
        FENCED,
        "another task has taken over a transaction of a Kafka sink",
        "one run of the query, and one task for each of its partitions",
        "nothing of the task was written; it is written when the batch runs again from the checkpoint",
    ),
    (
        ("INVALID_TRANSACTION_TIMEOUT",),
        "the brokers allow no transactions of a Kafka sink that last so long",
        "a transaction.timeout.ms within transaction.max.timeout.ms of the brokers",
        "lower the one, or raise the other",
    ),
    (
        ("",),
        "Kafka cannot be written",
        "brokers that take transactions, and options that librdkafka knows",
        "the servers and options of the sink say where, and how",
    ),
)
"""Words in the names of errors, and what is told of them: the message, what was expected, and a hint."""


@contextmanager
def reasons_told(client: Any, errors: Iterable[Any]) -> Iterator[None]:
    """Replaces the error of a request that got no answer by the reason that the client was told, such as a login."""
    try:
        yield
    except client_library().KafkaException as error:
        client.poll(0)
        told = [each for each in errors if each.name() != "_ALL_BROKERS_DOWN"]
        if is_of(error.args[0], _SILENT) and told:
            logins = [each for each in told if is_of(each, _LOGIN)]
            raise client_library().KafkaException((logins or told)[-1]) from None
        raise


@contextmanager
def kafka_errors(
    step: Step, sink: KafkaSink[Any], what: str, refused: Callable[[Any, str], SinkError] | None = None
) -> Iterator[None]:
    """Turns errors of the client into a ``SinkError`` for what a sink has asked, or what ``refused`` returns."""
    try:
        yield
    except client_library().KafkaException as error:
        # The error is not chained: its text may hold an option's value.
        raise (refused or partial(refused_error, step, sink))(error.args[0], what) from None


def refused_error(step: Step, sink: KafkaSink[Any], error: Any, what: str) -> SinkError:
    """Returns the error for what the brokers or the client refused; the text may hold an option's value."""
    message, expected, hint = next(told for words, *told in _TOLD if is_of(error, words))
    given = f"{sink.describe()}, {what}: {redact(error.str(), sink.secrets)} ({error.name()})"
    return SinkError(message, given=given, expected=expected, where=step.where, hint=hint)


def is_of(error: Any, words: Iterable[str]) -> bool:
    """Returns whether the name of an error has one of some words."""
    return any(word in error.name() for word in words)


def absent_topic(topic: str) -> Exception:
    """Returns the error that a broker has for a topic that is not there."""
    client = client_library()
    error: Exception = client.KafkaException(client.KafkaError(client.KafkaError.UNKNOWN_TOPIC_OR_PART, topic))
    return error

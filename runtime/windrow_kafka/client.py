"""Keeps the clients by which a process asks Kafka's brokers, where topics are read and where they are written."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow.kafka import KafkaSink, TopicSource

# Any in this module: confluent-kafka has no types, and topics have elements of every type.

CLIENTS_KEPT: Final = 8
_ERRORS: Final = 20
"""The newest errors that a client keeps: those in which it has failed to connect, before a request gets no answer."""

# librdkafka logs some errors in any case; all of them raise.
QUIET_LOG: Final = logging.getLogger(f"{__name__}.librdkafka")
QUIET_LOG.propagate = False
QUIET_LOG.addHandler(logging.NullHandler())


def client_library() -> Any:
    """Returns confluent-kafka, which is imported only where a plan has topics."""
    import confluent_kafka.admin

    return confluent_kafka


def check_client_library(end: TopicSource[Any] | KafkaSink[Any]) -> None:
    """Refuse a source or a sink if confluent-kafka is not there."""
    try:
        client_library()
    except ImportError as error:
        raise UnsupportedOperationError(
            f"a library is missing that this {'sink' if isinstance(end, KafkaSink) else 'source'} needs",
            given=f"{end.describe()}, without confluent_kafka",
            hint=install_hint("kafka"),
        ) from error


def admin_client(options: Mapping[str, str]) -> tuple[Any, deque[Any]]:
    """Returns the client for questions to the brokers of the options, and its newest errors."""
    # A process that was forked shares no client with the one before.
    return _kept_admin(tuple(sorted(options.items())), os.getpid())


@lru_cache(maxsize=CLIENTS_KEPT)
def _kept_admin(options: tuple[tuple[str, str], ...], process: int) -> tuple[Any, deque[Any]]:
    errors: deque[Any] = deque(maxlen=_ERRORS)
    settings = {**dict(options), "log_level": 0, "error_cb": errors.append}
    return client_library().admin.AdminClient(settings, logger=QUIET_LOG), errors


def forget_admin_clients() -> None:
    """Closes the clients: one that has failed would go on asking."""
    _kept_admin.cache_clear()

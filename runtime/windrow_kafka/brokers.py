"""Asks brokers about topics, by clients that last as long as their process."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from windrow.errors import SourceError
from windrow.kafka import TopicSource
from windrow.time import timestamp_millis
from windrow_kafka.client import CLIENTS_KEPT, QUIET_LOG, admin_client, client_library, forget_admin_clients
from windrow_kafka.faults import ABSENT, asked_again, is_of, may_pass, reasons_told, refused_error

# Any in this module: confluent-kafka has no types.

_FETCHING: Final[dict[str, Any]] = {
    # A batch ends where records are: a fetch that waits for later ones would hold up the next batch.
    "fetch.wait.max.ms": 10,
    # The next batch reads records beyond a range again: so fetch few, and look at a full queue often.
    "queued.max.messages.kbytes": 16_384,
    "max.partition.fetch.bytes": 4_194_304,
    "fetch.queue.backoff.ms": 2,
}

_SECONDS_TO_SETTLE: Final = 5.0
"""How long a run that begins waits for transactions that are open, which may have been committed a moment ago."""

_SETTLING_PAUSE: Final = 0.01

_OF_CONSUMERS: Final = ("group.id", "isolation.level")


@dataclass(frozen=True)
class TopicBrokers:
    """The brokers that have the topics of a source; ``where`` is the step of the source."""

    topics: TopicSource[Any]
    where: str

    def described(self, names: Collection[str], seconds: float) -> dict[str, Any]:
        """Returns the brokers' descriptions of topics, which have to exist."""
        client, errors = self.admin()
        with reasons_told(client, errors):
            wanted = client_library().TopicCollection(sorted(names))
            answers = client.describe_topics(wanted, request_timeout=seconds) if names else {}
            return {name: _described(name, answer) for name, answer in answers.items()}

    def settle(self, names: Collection[str]) -> None:
        """Waits until readers of committed records see all records that partitions had when the run began.

        Brokers tell a producer that its transaction is committed a moment before they let readers see it. A transaction
        that stays open is not waited for.
        """
        if self._is_uncommitted:
            return
        written = self.offsets(names, "latest", uncommitted=True)
        until = time.monotonic() + _SECONDS_TO_SETTLE
        lagging = list(written)
        while lagging:
            seen = self.offsets(lagging, "latest")
            lagging = [name for name in lagging if seen[name] < written[name]]
            if time.monotonic() > until:
                return
            if lagging:
                time.sleep(_SETTLING_PAUSE)

    @property
    def _is_uncommitted(self) -> bool:
        return dict(self._config())["isolation.level"] == "read_uncommitted"

    def offsets(self, names: Iterable[str], which: Any, *, uncommitted: bool = False) -> dict[str, int]:
        """Returns the offsets of partitions: the ``"earliest"``, the ``"latest"``, or the first at a time.

        They are those of what is committed, unless the options or ``uncommitted`` ask for all.
        """
        client = client_library()
        spec_of = client.admin.OffsetSpec
        if isinstance(which, datetime) and timestamp_millis(which) < 0:
            which = "earliest"  # no record is older, and some have no time
        if isinstance(which, datetime):
            spec = spec_of.for_timestamp(timestamp_millis(which))
        else:
            spec = spec_of.earliest() if which == "earliest" else spec_of.latest()
        wanted = {client.TopicPartition(*place_of(name)): spec for name in names}
        if not wanted:
            return {}
        level = client.IsolationLevel.READ_COMMITTED
        if uncommitted or self._is_uncommitted:
            level = client.IsolationLevel.READ_UNCOMMITTED

        def ask(seconds: float) -> dict[str, int]:
            admin, errors = self.admin()
            try:
                with reasons_told(admin, errors):
                    answers = admin.list_offsets(wanted, isolation_level=level, request_timeout=seconds)
                    names = {f"{at.topic}/{at.partition}": each for at, each in answers.items()}
                    offsets = {name: _described(name, each).offset for name, each in names.items()}
            except client.KafkaException as error:
                if may_pass(error.args[0]):
                    # The client would ask the leaders that it knows of, by their old epochs, for ever.
                    admin.list_topics(timeout=seconds)
                raise
            if min(offsets.values()) < (client.OFFSET_END if isinstance(which, datetime) else 0):
                # The client gives this instead of the error with which a broker has gone away.
                raise client.KafkaException(client.KafkaError(client.KafkaError.OFFSET_NOT_AVAILABLE))
            return offsets

        with self.errors(f"the {which} offsets", was_there=True):
            offsets = asked_again(ask)
        late = [name for name, offset in offsets.items() if offset < 0]  # no record is as late as that time
        return offsets | (self.offsets(late, "latest") if late else {})

    def admin(self) -> tuple[Any, deque[Any]]:
        """Returns a client that asks brokers, and the list of the errors that it logs."""
        return admin_client({name: value for name, value in self._config() if name not in _OF_CONSUMERS})

    def _config(self) -> tuple[tuple[str, str], ...]:
        options = {"group.id": "windrow", "isolation.level": "read_committed", **self.topics.options}
        return tuple(sorted(options.items()))

    def consumer(self) -> Any:
        """Returns a client that reads records, which this thread alone uses."""
        return _kept_consumer(self._config(), self.topics.on_lost_offsets, os.getpid(), threading.get_ident())

    @contextmanager
    def errors(self, what: str, *, was_there: bool) -> Iterator[None]:
        """Turns errors of the client into windrow's, which name ``what`` a source asked the broker for."""
        try:
            yield
        except client_library().KafkaException as error:
            # A client that has failed would go on asking.
            forget_admin_clients()
            _kept_consumer.cache_clear()
            refused = refused_error(self.topics, self.where, error.args[0], what)
            if was_there and is_of(error.args[0], ABSENT):
                refused = SourceError(
                    "a topic was deleted after it was found",
                    given=refused.given,
                    expected="topics that are there until they are read",
                    where=self.where,
                    hint='on_lost_offsets="earliest" goes on with what is there: a topic that is made anew, or the '
                    "other topics of a pattern",
                )
            raise refused from None


def _described(name: str, answer: Any) -> Any:
    """Returns what brokers answer of a topic or a partition; an error of theirs names it."""
    client = client_library()
    try:
        return answer.result()
    except client.KafkaException as error:
        reason = error.args[0]
        raise client.KafkaException(client.KafkaError(reason.code(), f"{name}: {reason.str()}")) from None


def place_of(name: str) -> tuple[str, int]:
    """Returns the topic and the number of a partition, by its name."""
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


@lru_cache(maxsize=CLIENTS_KEPT)
def _kept_consumer(config: tuple[tuple[str, str], ...], on_lost: str, process: int, thread: int) -> Any:
    reset = "error" if on_lost == "fail" else "earliest"
    own = {"enable.auto.commit": "false", "auto.offset.reset": reset, "enable.partition.eof": "true"}
    return client_library().Consumer({"log_level": 0, **_FETCHING, **dict(config), **own}, logger=QUIET_LOG)

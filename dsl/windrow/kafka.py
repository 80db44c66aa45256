"""Kafka topics as sources and sinks, through Spark's connector. They run on Spark only.

The connector does not come with PySpark. Name it when the session starts, in Spark's own version::

    SparkSession.builder.config("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0")
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from re import Pattern
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from typing_extensions import TypeForm

from windrow.addresses.redaction import redact_options, secrets_in
from windrow.errors import InvalidArgumentError, require_callable
from windrow.sinks import Sink
from windrow.sources import OnMalformed, Source, check_on_malformed
from windrow.text_options import checked_timezone

__all__ = ["KafkaFormat", "KafkaRecord", "KafkaRecordSource", "KafkaSink", "KafkaSource", "TopicSource"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

KafkaFormat = Literal["json", "text", "bytes"]
"""Values are written as JSON of their type, as UTF-8 of a ``str``, or as the ``bytes`` that they are."""

_RAW = {"text": str, "bytes": bytes}


@dataclass(frozen=True)
class KafkaRecord(Generic[T]):
    """A record of a topic with all that Kafka knows of it.

    Attributes:
        key: The key, or None where the producer gave none.
        value: The decoded value.
        topic: The topic.
        partition: The partition of the topic.
        offset: The place in the partition.
        timestamp: When the record was made or appended, as the topic is configured.
        headers: The headers, in order.
    """

    key: bytes | None
    value: T
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TopicSource(Source[T_co]):
    """What :class:`KafkaSource` and :class:`KafkaRecordSource` have in common.

    Attributes:
        value_type: The type of the values.
        value_format: How they are written.
    """

    value_type: object
    value_format: KafkaFormat

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str] | Pattern[str],
        value_type: object,
        *,
        value_format: KafkaFormat,
        on_malformed: OnMalformed,
        timezone: str | tzinfo | None,
        starting_offsets: str,
        max_offsets_per_batch: int | None,
        options: Mapping[str, str] | None,
    ) -> None:
        _check_format(value_format)
        if value_format in _RAW and value_type is not _RAW[value_format]:
            raise InvalidArgumentError(
                f"the format {value_format!r} gives values of one type",
                given=value_type,
                expected=_RAW[value_format].__name__,
                hint='value_format="json" for every other type',
            )
        check_on_malformed(on_malformed)
        self.timezone = checked_timezone(timezone)
        if max_offsets_per_batch is not None and max_offsets_per_batch < 1:
            raise InvalidArgumentError(
                "max_offsets_per_batch must be positive", given=max_offsets_per_batch, expected="an int >= 1"
            )
        made = {"kafka.bootstrap.servers": _servers(servers), "startingOffsets": starting_offsets}
        if isinstance(topics, Pattern):
            self._topics = f"topics like {topics.pattern}"
            self._names: tuple[str, ...] = ()
            made["subscribePattern"] = topics.pattern
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
            if not names or not all(names):
                raise InvalidArgumentError(
                    "a Kafka source reads topics", given=topics, expected="a name, names or a compiled pattern"
                )
            self._topics = ", ".join(names)
            self._names = tuple(names)
            made["subscribe"] = ",".join(names)
        if max_offsets_per_batch is not None:
            made["maxOffsetsPerTrigger"] = str(max_offsets_per_batch)
        if self.whole_records:
            made["includeHeaders"] = "true"
        reserved = {*made, "subscribe", "subscribePattern", "assign", "maxOffsetsPerTrigger", "includeHeaders"}
        self._options = {**made, **_checked(options, reserved)}
        self._servers = made["kafka.bootstrap.servers"]
        self.value_type = value_type
        self.value_format = value_format
        self._on_malformed: OnMalformed = on_malformed

    @property
    @abstractmethod
    def whole_records(self) -> bool:
        """Whether the elements are records with key, offset and timestamp, and not their values alone."""

    @property
    def is_bounded(self) -> bool:
        """False."""
        return False

    @property
    def options(self) -> Mapping[str, str]:
        """All options for the reader of Spark. They have the secrets in them, so do not show them."""
        return MappingProxyType(self._options)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics; none if they are those of a pattern."""
        return self._names

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets among the options."""
        return secrets_in(self._options)

    @property
    def on_malformed(self) -> OnMalformed:
        """What becomes of records whose value does not fit."""
        return self._on_malformed

    def describe(self) -> str:
        return f"kafka {self._topics} at {self._servers}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact_options(self._options)})"


class KafkaSource(TopicSource[T_co]):
    """The values of Kafka topics. A stream without end; Spark's checkpoint keeps the offsets.

    Args:
        servers: The brokers to begin with: ``"host:9092"``, or several.
        topics: A topic, several, or a compiled pattern that names of topics match (Java's regular expressions).
        value_type: The type of the values.
        value_format: ``"json"`` decodes a JSON text into the type; ``"text"`` gives ``str``, ``"bytes"`` ``bytes``.
        on_malformed: What becomes of records whose value does not fit. A record without value (a tombstone) reads as
            JSON's null, so it fits a type that is Optional.
        timezone: Where the clock of dates and times without an offset is, as for
            :class:`~windrow.sources.JsonFileSource`. Without it such values are malformed.
        starting_offsets: Where a new checkpoint begins: ``"latest"``, ``"earliest"`` or Spark's JSON of offsets.
        max_offsets_per_batch: How many records make a batch at most; by default all that are there.
        options: Further options of Spark's source, such as ``{"kafka.security.protocol": "SASL_SSL"}``, or
            ``{"kafka.isolation.level": "read_committed"}`` for a topic with transactions: without it aborted records
            are read, too. Secrets among them are not shown by ``explain()`` and errors.

    Raises:
        InvalidArgumentError: For an option that an argument sets, and for a format that does not go with the type.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str] | Pattern[str],
        value_type: TypeForm[T_co],
        *,
        value_format: KafkaFormat = "json",
        on_malformed: OnMalformed = "fail",
        timezone: str | tzinfo | None = None,
        starting_offsets: str = "latest",
        max_offsets_per_batch: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            servers,
            topics,
            value_type,
            value_format=value_format,
            on_malformed=on_malformed,
            timezone=timezone,
            starting_offsets=starting_offsets,
            max_offsets_per_batch=max_offsets_per_batch,
            options=options,
        )

    @property
    def whole_records(self) -> bool:
        """False."""
        return False

    @property
    def element_type(self) -> object:
        """The type of the values."""
        return self.value_type


class KafkaRecordSource(TopicSource[KafkaRecord[T]], Generic[T]):
    """The records of Kafka topics with their key, place, timestamp and headers.

    Use it to assign Kafka's own timestamps: ``timestamp=lambda record: record.timestamp``. The arguments are those of
    :class:`KafkaSource`.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str] | Pattern[str],
        value_type: TypeForm[T],
        *,
        value_format: KafkaFormat = "json",
        on_malformed: OnMalformed = "fail",
        timezone: str | tzinfo | None = None,
        starting_offsets: str = "latest",
        max_offsets_per_batch: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            servers,
            topics,
            value_type,
            value_format=value_format,
            on_malformed=on_malformed,
            timezone=timezone,
            starting_offsets=starting_offsets,
            max_offsets_per_batch=max_offsets_per_batch,
            options=options,
        )

    @property
    def whole_records(self) -> bool:
        """True."""
        return True

    @property
    def element_type(self) -> object:
        """:class:`KafkaRecord` of the type of the values."""
        alias: Any = KafkaRecord  # subscripting with a type that is known at run time only
        kind: object = alias[self.value_type]
        return kind


class KafkaSink(Sink[T_contra]):
    """Writes each element as a record of a Kafka topic.

    Spark writes at least once: a batch that is run again after a failure is written again.

    Args:
        servers: The brokers to begin with: ``"host:9092"``, or several.
        topic: The topic, or a function that gives that of an element.
        key: Gives the key of an element, as ``bytes``, as ``str`` (written as UTF-8) or None. By default no record has
            a key. Functions are called on the workers, once for each element.
        value_format: ``"json"`` writes JSON of the element's type; ``"text"`` takes ``str``, ``"bytes"`` ``bytes``.
        options: Further options of Spark's sink, such as ``{"kafka.compression.type": "zstd"}``. Secrets among them are
            not shown by ``explain()`` and errors.

    Raises:
        InvalidArgumentError: For an option that an argument sets.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str | Callable[[T_contra], str],
        *,
        key: Callable[[T_contra], str | bytes | None] | None = None,
        value_format: KafkaFormat = "json",
        options: Mapping[str, str] | None = None,
    ) -> None:
        _check_format(value_format)
        if not topic:
            raise InvalidArgumentError("a Kafka sink writes to a topic", given=topic, expected="a name")
        if not isinstance(topic, str):
            require_callable(topic, "the topic of a Kafka sink", "a name, or a function that gives one")
        if key is not None:
            require_callable(key, "the key of a Kafka sink", "a function of the element")
        self._servers = _servers(servers)
        self._options = {
            "kafka.bootstrap.servers": self._servers,
            **_checked(options, {"kafka.bootstrap.servers", "topic"}),
        }
        self.topic = topic
        self.key = key
        self.value_format = value_format

    @property
    def options(self) -> Mapping[str, str]:
        """All options for the writer of Spark. They have the secrets in them, so do not show them."""
        return MappingProxyType(self._options)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets among the options."""
        return secrets_in(self._options)

    @property
    def needs_schema(self) -> bool:
        """Whether elements are written as JSON of their type."""
        return self.value_format == "json"

    def describe(self) -> str:
        topic = self.topic if isinstance(self.topic, str) else "topics by element"
        return f"kafka {topic} at {self._servers}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact_options(self._options)})"


def _check_format(given: object) -> None:
    if given not in ("json", "text", "bytes"):
        raise InvalidArgumentError("the format is unknown", given=given, expected='"json", "text" or "bytes"')


def _servers(given: str | Sequence[str]) -> str:
    text = given if isinstance(given, str) else ",".join(given)
    if not text:
        raise InvalidArgumentError("Kafka needs a server", given=given, expected='such as "localhost:9092"')
    return text


def _checked(options: Mapping[str, str] | None, reserved: set[str]) -> dict[str, str]:
    """The further options. Spark does not tell capitals from small letters in their names."""
    lowered = {name.lower() for name in reserved}
    for name in options or {}:
        if name.lower() in lowered:
            raise InvalidArgumentError(
                "an argument sets this option",
                given=name,
                expected="options without an argument of their own",
                hint=f"not among {', '.join(sorted(reserved))}",
            )
    return dict(options or {})

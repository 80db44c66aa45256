"""Kafka topics as sources and sinks.

confluent-kafka reads and writes them, on Spark and in the interpreter, without a jar, with
the extra ``kafka``. A DataFrame of Spark's own connector is a source for
:func:`~windrow.from_dataframe`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from re import Pattern
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, Literal

from typing_extensions import TypeForm, TypeVar

from windrow.addresses.datasets import Dataset, topic_datasets
from windrow.addresses.redaction import longest_first, redact_options, secrets_in
from windrow.connectors.avro_types import avro_misfit
from windrow.connectors.producer_record import ProducerRecord, WrittenType, without_none, written_type
from windrow.connectors.registry_formats import AvroFormat, ProtobufFormat, RegistryFormat
from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError, require_callable
from windrow.sinks import Sink
from windrow.sources import OnMalformed, Source, check_on_malformed
from windrow.text_options import checked_timezone, has_half_surrogate

__all__ = [
    "AvroFormat",
    "EndingOffsets",
    "KafkaFormat",
    "KafkaRecord",
    "KafkaRecordSource",
    "KafkaSink",
    "KafkaSource",
    "LostOffsets",
    "OffsetsPerBatch",
    "ProducerRecord",
    "ProtobufFormat",
    "TopicSource",
    "ValueFormat",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True, default=Any)  # Any: runners take sources of every type of values

EndingOffsets = Literal["latest"] | datetime
"""A run ends at the offsets that are the latest when it begins, or at a time."""

LostOffsets = Literal["fail", "earliest", "latest"]
"""What a source does where records that it was to read are gone."""

OffsetsPerBatch = int | Literal["all"]
"""How many records make a batch at most."""

RECORDS_OF_A_TASK: Final = 500_000
"""How many records a batch has at most for each task that shares it, unless the source says another number."""

KafkaFormat = Literal["json", "text", "bytes"]
"""Values are written as JSON of their type, as UTF-8 of a ``str``, or as the ``bytes`` that they are."""

ValueFormat = KafkaFormat | RegistryFormat
"""The formats of values, which are those of ``KafkaFormat``, ``AvroFormat`` and ``ProtobufFormat``."""

TOPIC_NAME: Final = "a name of 1 to 249 letters of ASCII, digits, dots, underscores and hyphens"
"""What Kafka takes as the name of a topic."""

_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")

_RAW: Final[dict[object, type]] = {"text": str, "bytes": bytes}


def is_topic_name(name: object) -> bool:
    """Whether Kafka takes this as the name of a topic."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None


@dataclass(frozen=True)
class KafkaRecord(Generic[T]):
    """A record of a topic with its value, key, partition, offset, timestamp and headers.

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


def values_of_sink(element_type: object | None) -> WrittenType:
    """The type of the values that a Kafka sink encodes of elements of a type; None: it is not known."""
    return written_type(element_type, KafkaRecord)


class TopicSource(Source[T_co], Generic[T_co, V_co]):
    """The base class of :class:`KafkaSource` and :class:`KafkaRecordSource`.

    The type parameters are those of the elements, and of the values.

    Args:
        servers: The brokers to begin with, ``"host:9092"`` or several.
        topics: A topic, several, or a compiled pattern that whole names of topics match.
        value_type: The type of the values.
        value_format: How they are written.
        on_malformed: What becomes of records whose value does not fit.
        timezone: Where the clock of dates and times without an offset is; None: such values are malformed.
        starting_offsets: Where a new checkpoint begins.
        ending_offsets: Where a run ends; None: nowhere.
        max_offsets_per_batch: How many records make a batch at most; None: the default.
        options: Further options of librdkafka; None: no others.
        on_lost_offsets: What is done where records that were to be read are gone.

    Attributes:
        value_type: The type of the values.
        value_format: How they are written.
        topics: The names of the topics, or the pattern that they match.
        starting_offsets: Where a new checkpoint begins.
        ending_offsets: Where a run ends; None: nowhere.
        max_offsets_per_batch: How many records make a batch at most; None: the default.
        on_lost_offsets: What is done where records that were to be read are gone.

    Raises:
        InvalidArgumentError: For an option that an argument sets, and for a format that does not go with the type.
    """

    connector_name = "kafka"
    value_type: object
    value_format: ValueFormat
    topics: tuple[str, ...] | Pattern[str]
    whole_records: ClassVar[bool]
    """Whether the elements are records with key, offset and timestamp, and not their values alone."""
    has_offsets = True

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str] | Pattern[str],
        value_type: TypeForm[V_co],
        *,
        value_format: ValueFormat = "json",
        on_malformed: OnMalformed = "fail",
        timezone: str | tzinfo | None = None,
        starting_offsets: str | datetime = "latest",
        ending_offsets: EndingOffsets | None = None,
        max_offsets_per_batch: OffsetsPerBatch | None = None,
        options: Mapping[str, str] | None = None,
        on_lost_offsets: LostOffsets = "fail",
    ) -> None:
        _check_format(value_format)
        if value_format in _RAW and without_none(value_type)[0] is not _RAW[value_format]:
            raise InvalidArgumentError(
                f"the format {value_format!r} gives values of one type",
                given=value_type,
                expected=f"{_RAW[value_format].__name__}, or {_RAW[value_format].__name__} | None with tombstones",
                hint='value_format="json" for every other type',
            )
        if isinstance(value_format, AvroFormat) and (misfit := avro_misfit(value_type)) is not None:
            raise InvalidArgumentError("this type has no form in Avro", given=misfit.part, expected=misfit.expected)
        check_on_malformed(on_malformed)
        self.timezone = checked_timezone(timezone)
        if max_offsets_per_batch is not None:
            _check_most(max_offsets_per_batch)
        if isinstance(topics, Pattern):
            self._topics, self.topics = f"topics like {topics.pattern}", topics
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
            wrong = [name for name in names if not is_topic_name(name)]
            if wrong or not names:
                raise InvalidArgumentError(
                    "a Kafka source reads topics",
                    given=wrong[0] if wrong else topics,
                    expected=f"{TOPIC_NAME}, a list of names or a compiled pattern",
                )
            self._topics, self.topics = ", ".join(names), tuple(names)
        for verb, offsets in (("begins", starting_offsets), ("ends", ending_offsets)):
            if isinstance(offsets, datetime) and offsets.tzinfo is None:
                raise InvalidArgumentError(
                    f"a source {verb} at a time with a time zone",
                    given=offsets,
                    expected="such as datetime(2026, 1, 31, tzinfo=UTC)",
                )
        if ending_offsets is not None:
            _check_end(starting_offsets, ending_offsets)
        if on_lost_offsets not in ("fail", "earliest", "latest"):
            raise InvalidArgumentError(
                "on_lost_offsets is unknown", given=on_lost_offsets, expected='"fail", "earliest" or "latest"'
            )
        self.starting_offsets = starting_offsets
        self.ending_offsets = ending_offsets
        self.max_offsets_per_batch = max_offsets_per_batch
        self.on_lost_offsets: LostOffsets = on_lost_offsets
        self._servers = _servers(servers)
        if starting_offsets not in ("earliest", "latest") and not isinstance(starting_offsets, datetime):
            raise InvalidArgumentError(
                "starting_offsets is unknown", given=starting_offsets, expected='"earliest", "latest" or a datetime'
            )
        _refuse_options_of_spark(options, "reads")
        servers = "bootstrap.servers"
        self._options = {servers: self._servers, **_checked(options, {servers, *_RESERVED})}
        self.value_type = value_type
        self.value_format = value_format
        self._on_malformed: OnMalformed = on_malformed

    @property
    def decoded_type(self) -> object | None:
        """The type of the values, where elements are whole records."""
        return self.value_type if self.whole_records else None

    def check_part(self, *, follows: bool) -> None:
        if follows and self.starting_offsets == "latest":
            raise InvalidArgumentError(
                "topics after another source begin where that ends, and their latest records leave a gap",
                given='starting_offsets="latest", which is the default',
                expected='a datetime, or "earliest"',
                hint="a function of the switch can say from what time on",
            )

    @property
    def is_bounded(self) -> bool:
        """Whether the source has ``ending_offsets``."""
        return self.ending_offsets is not None

    @property
    def options(self) -> Mapping[str, str]:
        """All options for confluent-kafka. They have the secrets in them, so do not show them."""
        return MappingProxyType(self._options)

    @property
    def secrets(self) -> tuple[str, ...]:
        return longest_first((*secrets_in(self._options), *_secrets_of(self.value_format)))

    @property
    def on_malformed(self) -> OnMalformed:
        return self._on_malformed

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The topics; of topics by a pattern, the pattern."""
        return topic_datasets(self._servers, [self.topics.pattern] if isinstance(self.topics, Pattern) else self.topics)

    def describe(self) -> str:
        return f"kafka {self._topics} at {self._servers}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()}{_others(self._options)})"


class KafkaSource(TopicSource[T_co, T_co]):
    """The values of Kafka topics, a stream without end unless it has ``ending_offsets``.

    Spark's checkpoint keeps the offsets.

    Args:
        servers: The brokers to begin with: ``"host:9092"``, or several.
        topics: A topic, several, or a compiled pattern that whole names of topics match.
        value_type: The type of the values.
        value_format: ``"json"`` decodes a JSON text into the type; ``"text"`` gives ``str``, ``"bytes"`` ``bytes``;
            :class:`AvroFormat` and :class:`ProtobufFormat` decode by the schema that a value names.
        on_malformed: What becomes of records whose value does not fit. A record without value (a tombstone) is None,
            which fits a type that is Optional, in each format.
        timezone: Where the clock of dates and times without an offset is, as for
            :class:`~windrow.sources.JsonFileSource`. Without it such values are malformed.
        starting_offsets: Where a new checkpoint begins: ``"latest"``, ``"earliest"``, a datetime (the first records
            that are not older by their own timestamps in Kafka; before 1970: ``"earliest"``). Partitions that are added
            later begin at their first record.
        ending_offsets: Where a run ends, which makes the source a bounded one, as ``setBounded`` of Flink's does:
            ``"latest"`` reads the records that there are when the run begins, a datetime those before the first
            one that is not older by its own timestamp in Kafka, if it is there then. Partitions that are added later
            are left to a later run, which goes on after the offsets of the checkpoint. It needs ``starting_offsets``
            that lie before it.
        max_offsets_per_batch: How many records make a batch at most. By default 500,000 for each shuffle partition of
            the run, which are 500,000 in the interpreter, so that what has gathered while a pipeline stood still is
            read in several batches; ``"all"`` takes all that are there.
        options: Further options of librdkafka, such as ``{"security.protocol": "SASL_SSL"}``. Secrets among them are
            not shown by ``explain()`` and errors.
        on_lost_offsets: What is done where records that were to be read are gone, since the topic kept them for a
            shorter time, was made anew, or is a deleted one of a pattern: ``"fail"`` fails the run, ``"earliest"`` goes
            on with the first records that are there, ``"latest"`` leaves out all that the batch would have read.

    Raises:
        InvalidArgumentError: For an option that an argument sets, for a format that does not go with the type, and for
            ``ending_offsets`` that do not lie after ``starting_offsets``.
    """

    whole_records = False

    @property
    def element_type(self) -> object:
        return self.value_type


class KafkaRecordSource(TopicSource[KafkaRecord[T], T]):
    """The records of Kafka topics with their key, place, timestamp and headers.

    Use it to assign Kafka's own timestamps: ``timestamp=lambda record: record.timestamp``. The arguments are those of
    :class:`KafkaSource`.
    """

    whole_records = True

    @property
    def element_type(self) -> object:
        alias: Any = KafkaRecord  # subscripting with a type that is known at run time only
        type_form: object = alias[self.value_type]
        return type_form


class KafkaSink(Sink[T_contra]):
    """Writes each element as a record of a Kafka topic, exactly once.

    Each task of a batch writes its records in one transaction of Kafka's, and notes the number of the batch in it, as
    an offset of a consumer group. A batch that runs again finds the note, and writes nothing. Consumers have to read
    with ``isolation.level=read_committed``, or they see records that were taken back. The transactions of a batch are
    committed one after the other, as its tasks end. A topic that is not there is made by the brokers, if they do so
    (``auto.create.topics.enable``). A key belongs to the same partition as with Kafka's clients in Java.

    None as a value, of a type that is Optional, is written as a record without value, which is a tombstone in a topic
    that is compacted. An element that is a :class:`ProducerRecord` has a key, headers, a timestamp and a partition of
    its own; one that is a :class:`KafkaRecord`, as a source reads it, is written with its key, value, headers and
    timestamp.

    A transaction lasts 15 minutes at most, which is what brokers allow by default; for longer batches raise
    ``transaction.timeout.ms`` among the options and ``transaction.max.timeout.ms`` at the brokers. The notes last as
    long as brokers keep offsets (``offsets.retention.minutes``, 7 days by default): after a longer pause the last batch
    may be written again.

    Args:
        servers: The brokers to begin with: ``"host:9092"``, or several.
        topic: The topic, or a function that gives that of an element.
        key: Gives the key of an element, as ``bytes``, as ``str`` (written as UTF-8) or None. By default no record has
            a key but those of elements that are records. Functions are called on the workers, once for each element.
        value_format: ``"json"`` writes JSON of the element's type; ``"text"`` takes ``str``, ``"bytes"`` ``bytes``;
            :class:`AvroFormat` and :class:`ProtobufFormat` write by a schema, whose id is before each value.
        options: Further options of librdkafka, such as ``{"compression.type": "zstd"}``. Secrets among them are not
            shown by ``explain()`` and errors.

    Raises:
        InvalidArgumentError: For an option that an argument sets, or with which records would be lost or doubled.
    """

    connector_name = "kafka"
    encodes_elements = True

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str | Callable[[T_contra], str],
        *,
        key: Callable[[T_contra], str | bytes | None] | None = None,
        value_format: ValueFormat = "json",
        options: Mapping[str, str] | None = None,
    ) -> None:
        _check_format(value_format)
        if isinstance(topic, str) and not is_topic_name(topic):
            raise InvalidArgumentError("a Kafka sink writes to a topic", given=topic, expected=TOPIC_NAME)
        if not isinstance(topic, str):
            require_callable(topic, "the topic of a Kafka sink", "a name, or a function of an element", takes="element")
        if key is not None:
            require_callable(key, "the key of a Kafka sink", "a function of the element", takes="element")
        self._servers = _servers(servers)
        _refuse_options_of_spark(options, "writes")
        _check_exact(options)
        servers = "bootstrap.servers"
        self._options = {servers: self._servers, **_checked(options, {servers, "topic", "metadata.broker.list"})}
        self.topic = topic
        self.key = key
        self.value_format: ValueFormat = value_format

    def encoded_type(self, element_type: object | None) -> object | None:
        return values_of_sink(element_type).value

    def misfits_of(self, element_type: object | None) -> Iterator[tuple[str, str]]:
        values = values_of_sink(element_type)
        if values.of_records and self.key is not None:
            yield (
                f"the sink {self.describe()!r} has a key function, and its elements are records with a key",
                "leave key= out, or map the elements to their values",
            )
        if values.of_records and values.value is None and self.needs_schema:
            yield (
                f"the sink {self.describe()!r} encodes the values of records, whose type is not known",
                "returns(ProducerRecord[Type]) before sink_to, or annotate the function that makes them",
            )
        misfit = avro_misfit(values.value) if isinstance(self.value_format, AvroFormat) else None
        if misfit is not None:
            yield (
                f"the sink {self.describe()!r} writes Avro, which has no form for {misfit.part}",
                f"map the elements before sink_to: {misfit.expected}",
            )

    @property
    def options(self) -> Mapping[str, str]:
        """All options for confluent-kafka. They have the secrets in them, so do not show them."""
        return MappingProxyType(self._options)

    @property
    def secrets(self) -> tuple[str, ...]:
        return longest_first((*secrets_in(self._options), *_secrets_of(self.value_format)))

    @property
    def needs_schema(self) -> bool:
        """Whether elements are written by their type."""
        return self.value_format == "json" or isinstance(self.value_format, RegistryFormat)

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The topic; none where each element names its own."""
        return topic_datasets(self._servers, [self.topic] if isinstance(self.topic, str) else [])

    def describe(self) -> str:
        topic = self.topic if isinstance(self.topic, str) else "topics by element"
        return f"kafka {topic} at {self._servers}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()}{_others(self._options)})"


def _others(options: Mapping[str, str]) -> str:
    """Options beside the brokers, without secrets, as they follow a description."""
    others = {name: value for name, value in options.items() if name != "bootstrap.servers"}
    return f", {redact_options(others)}" if others else ""


_RESERVED: Final = (
    "metadata.broker.list", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset",
    "enable.partition.eof",
)  # fmt: skip


_EXACT: Final[Mapping[str, tuple[str, ...]]] = {
    "acks": ("all", "-1"),
    "delivery.report.only.error": ("true",),
    "dr_cb": (),
    "enable.idempotence": ("true",),
    "error_cb": (),
    "group.id": (),
    "on_delivery": (),
    "request.required.acks": ("all", "-1"),
    "transactional.id": (),
}
"""The values that options may have, if a sink writes by transactions."""


def _check_most(most: OffsetsPerBatch) -> None:
    if not isinstance(most, str):
        check_positive(most, "max_offsets_per_batch")
    elif most != "all":
        raise InvalidArgumentError(
            "max_offsets_per_batch is unknown", given=most, expected='an int of at least 1, or "all"'
        )


def _check_end(starting: str | datetime, ending: object) -> None:
    if ending != "latest" and not isinstance(ending, datetime):
        raise InvalidArgumentError("ending_offsets is unknown", given=ending, expected='"latest" or a datetime')
    if starting == "latest" or (isinstance(starting, datetime) and isinstance(ending, datetime) and starting >= ending):
        raise InvalidArgumentError(
            "a source ends after the offsets at which it begins",
            given=f"starting_offsets={starting!r}, ending_offsets={ending!r}",
            expected='such as starting_offsets="earliest"',
            hint='starting_offsets="latest" is the default',
        )


def _refuse_options_of_spark(options: Mapping[str, str] | None, verb: str) -> None:
    of_spark = [name for name in options or {} if name.startswith("kafka.")]
    if of_spark:
        raise InvalidArgumentError(
            f"the option is Spark's, and confluent-kafka {verb} the topics",
            given=of_spark[0],
            expected=of_spark[0].removeprefix("kafka."),
            hint="the options of librdkafka have no prefix; SASL has sasl.username and sasl.password there",
        )


def _check_exact(options: Mapping[str, str] | None) -> None:
    for name, value in (options or {}).items():
        allowed = _EXACT.get(name)
        if name == "transaction.timeout.ms" and (not str(value).isdecimal() or int(value) < 1):
            raise InvalidArgumentError(
                "the longest time of a transaction is no number", given=f"{name}={value}", expected=f"{name}=900000",
                hint="in milliseconds",
            )  # fmt: skip
        if allowed is not None and str(value).lower() not in allowed:
            raise InvalidArgumentError(
                "a sink writes by transactions, which this option would break",
                given=f"{name}={value}",
                expected=f"{name}={allowed[0]}" if allowed else "what the sink gives itself",
                hint="leave the option out",
            )


def _secrets_of(value_format: ValueFormat) -> tuple[str, ...]:
    return value_format.secrets if isinstance(value_format, RegistryFormat) else ()


def _check_format(value_format: object) -> None:
    if value_format not in ("json", "text", "bytes") and not isinstance(value_format, RegistryFormat):
        raise InvalidArgumentError(
            "the format is unknown",
            given=value_format,
            expected='"json", "text", "bytes", AvroFormat(...) or ProtobufFormat(...)',
        )


def _servers(servers: str | Sequence[str]) -> str:
    text = servers if isinstance(servers, str) else ",".join(servers)
    if not text:
        raise InvalidArgumentError("Kafka needs a server", given=servers, expected='such as "localhost:9092"')
    _check_text(text, "the servers of Kafka")
    return text


def _check_text(value: object, what: str) -> None:
    """Refuses a text that no client takes; it is not shown, as it may be secret."""
    text = str(value)
    if "\0" in text or has_half_surrogate(text):
        raise InvalidArgumentError(
            f"{what} can be no such text",
            given="a text with the character \\0" if "\0" in text else "a text with half of a surrogate pair",
            expected="characters that UTF-8 has",
        )


def _checked(options: Mapping[str, str] | None, reserved: set[str]) -> dict[str, str]:
    """The further options, none of which an argument sets."""
    lowered = {name.lower() for name in reserved}
    for name in options or {}:
        if name.lower() in lowered:
            raise InvalidArgumentError(
                "an argument sets this option",
                given=name,
                expected="options without an argument of their own",
                hint=f"not among {', '.join(sorted(reserved))}",
            )
    for name, value in (options or {}).items():
        _check_text(name, "the name of an option")
        _check_text(value, f"the option {name}")
    return dict(options or {})

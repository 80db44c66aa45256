"""Makes the records of topics from elements: their topics, keys, values, headers, timestamps and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.kafka import TOPIC_NAME, KafkaRecord, KafkaSink, ProducerRecord, ValueFormat, is_topic_name, values_of_sink
from windrow.plan import Step
from windrow.time import timestamp_millis
from windrow_kafka.registry.values import RegisteredWriter, registered_type
from windrow_runtime.codecs.json.encoder import JsonLines
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.value_type import ANY_JSON
from windrow_runtime.operators.errors import first_line, shortened

# Any in this module: elements of every type.


class Records(NamedTuple):
    """The records of some elements: a topic, a key, a value and further arguments of ``produce`` for each."""

    topics: Sequence[str]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    others: Sequence[Mapping[str, Any]]

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return sum(len(value) for value in self.values if value is not None)

    @classmethod
    def of_values(cls, topic: str, values: Sequence[bytes]) -> Records:
        """Returns the records of values alone."""
        count = len(values)
        return cls([topic] * count, [None] * count, values, [_NOTHING] * count)


_NOTHING: Final[Mapping[str, Any]] = {}
_RECORDS: Final = (ProducerRecord, KafkaRecord)


@dataclass(frozen=True)
class TopicRecords:
    """Makes the records of one sink; workers get it. Its errors do not name the step."""

    record_type: RecordType | None  # of JSON
    format: ValueFormat
    topic: str | Callable[[Any], str]
    key: Callable[[Any], str | bytes | None] | None
    of_records: bool | None  # whether elements are records with a value; None: it is not known
    takes_none: bool  # whether a value may be None
    registered: RegisteredWriter | None = None  # of a format with a schema registry

    @classmethod
    def of(cls, step: Step, sink: KafkaSink[Any]) -> TopicRecords:
        """Returns the maker for a step's sink."""
        values = values_of_sink(step.node.element_type)
        element_type = record_type(values.value) if sink.value_format == "json" else None
        registered = None
        if isinstance(sink.value_format, RegistryFormat):
            value_type = registered_type(sink.value_format, values.value, is_sink=True)
            registered = RegisteredWriter(sink.value_format, value_type)
        root = None if element_type is None else element_type.root
        takes_none = values.takes_none or (root is not None and (root.nullable or root.kind in ANY_JSON))
        return cls(element_type, sink.value_format, sink.topic, sink.key, values.of_records, takes_none, registered)

    def of_elements(self, elements: Sequence[Any]) -> Records:
        """Makes the records of elements."""
        topic = self.topic
        topics = [topic] * len(elements) if isinstance(topic, str) else list(map(self._topic_of, elements))
        if self.of_records or (self.of_records is None and any(isinstance(each, _RECORDS) for each in elements)):
            records = [each if isinstance(each, _RECORDS) else self._no_record(each) for each in elements]
            keys = [_key(record.key, "give the record text or bytes as its key") for record in records]
            values = [record.value for record in records]
            return Records(topics, keys, self._encoded(values, topics), list(map(_others, records)))
        keys = [None] * len(elements) if self.key is None else list(map(self._key_of, elements))
        return Records(topics, keys, self._encoded(elements, topics), [_NOTHING] * len(elements))

    def _no_record(self, element: object) -> ProducerRecord[Any]:
        if self.of_records is None:
            return ProducerRecord(element)
        raise InvalidArgumentError(
            "an element of a Kafka sink is no record", given=shortened(element), expected="a ProducerRecord"
        )

    def _encoded(self, values: Sequence[Any], topics: Sequence[str]) -> Sequence[bytes | None]:
        """Encodes values; None stays None where the sink allows it, and is written as a tombstone."""
        if not self.takes_none or all(value is not None for value in values):
            return self._encode(values, topics)
        encoded_places = [place for place, value in enumerate(values) if value is not None]
        encoded = self._encode([values[place] for place in encoded_places], [topics[place] for place in encoded_places])
        by_place = dict(zip(encoded_places, encoded, strict=True))
        return list(map(by_place.get, range(len(values))))

    @cached_property
    def _encode(self) -> Callable[[Sequence[Any], Sequence[str]], Sequence[bytes]]:
        if self.registered is not None:
            return self.registered.encode
        lines = self.lines
        if lines is None:
            return lambda values, topics: list(map(self._raw, values))
        return lambda values, topics: lines.encode(values).encode().split(b"\n")[:-1]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def lines(self) -> JsonLines | None:
        """What writes values as lines of JSON; None for other formats."""
        return None if self.record_type is None else JsonLines(self.record_type)

    def _raw(self, value: Any) -> bytes:
        if self.format == "text" and isinstance(value, str):
            return _utf_8(value, "value")
        if self.format == "bytes" and isinstance(value, bytes):
            return value
        raise InvalidArgumentError(
            f"the format {self.format!r} of a Kafka sink writes values of one type",
            given=shortened(value),
            expected="str" if self.format == "text" else "bytes",
            hint='value_format="json" for every other type',
        )

    def _topic_of(self, value: Any) -> str:
        topic: object = _called(self.topic, value, "topic")
        if not isinstance(topic, str) or not is_topic_name(topic):
            raise InvalidArgumentError(
                "the topic of a record is a name",
                given=f"{shortened(topic)} for element {shortened(value)}",
                expected=TOPIC_NAME,
            )
        return topic

    def _key_of(self, value: Any) -> bytes | None:
        return _key(_called(self.key, value, "key"), "key=lambda element: str(element.number)")


def _key(key: object, hint: str) -> bytes | None:
    if isinstance(key, str):
        return _utf_8(key, "key")
    if key is None or isinstance(key, bytes):
        return key
    raise InvalidArgumentError(
        "the key of a record is text or bytes", given=shortened(key), expected="str, bytes or None", hint=hint
    )


def _others(record: ProducerRecord[Any] | KafkaRecord[Any]) -> Mapping[str, Any]:
    """Returns what ``produce`` takes of a record besides topic, key and value; checks it."""
    others: dict[str, Any] = {}
    if record.headers:
        others["headers"] = list(map(_header, record.headers))
    if isinstance(record, KafkaRecord):
        millis = timestamp_millis(record.timestamp)
        return others if millis < 0 else {**others, "timestamp": millis}  # a record may have come without one
    if record.timestamp is not None:
        others["timestamp"] = _millis(record.timestamp)
    if record.partition is not None:
        if type(record.partition) is not int or not 0 <= record.partition < 1 << 31:
            raise InvalidArgumentError(
                "the partition of a record is a number", given=record.partition, expected="an int from 0, or None"
            )
        others["partition"] = record.partition
    return others


def _header(header: object) -> tuple[str, bytes | None]:
    match header:
        case (str() as name, None | bytes() as value):
            _utf_8(name, "name of a header")
            return name, value
    raise InvalidArgumentError(
        "a header of a record is a pair", given=shortened(header), expected="a str, and bytes or None"
    )


def _millis(timestamp: object) -> int:
    if isinstance(timestamp, datetime) and timestamp.tzinfo is not None:
        millis = timestamp_millis(timestamp)
    else:
        millis = timestamp if type(timestamp) is int else -1
    if not 0 <= millis < 1 << 63:
        raise InvalidArgumentError(
            "Kafka does not take the timestamp of a record",
            given=timestamp,
            expected="a datetime with a time zone, or milliseconds, from 1970 on; or None: when it is written",
        )
    return millis


def _utf_8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"the {what} of a record is text in UTF-8", given=shortened(text), expected="no half of a surrogate pair"
        ) from None


def _called(function: Any, value: Any, what: str) -> object:
    try:
        return function(value)
    except Exception as error:
        raise UserFunctionError(
            f"the {what} function of the sink raised {first_line(error)}", given=f"element {shortened(value)}"
        ) from error

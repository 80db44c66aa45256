"""Makes the records of topics from elements: their topics, keys and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.kafka import TOPIC_NAME, KafkaSink, ValueFormat, is_topic_name
from windrow.plan import Step
from windrow_runtime.codecs.json.encoder import JsonLines
from windrow_runtime.codecs.record_type import RecordType, record_type
from windrow_runtime.codecs.registry.values import RegisteredWriter, registered_type
from windrow_runtime.operators.errors import shortened

# Any in this module: elements of every type.


@dataclass(frozen=True)
class TopicRecords:
    """Makes the records of one sink; workers get it. Its errors do not name the step."""

    kind: RecordType | None  # of JSON
    format: ValueFormat
    topic: str | Callable[[Any], str]
    key: Callable[[Any], str | bytes | None] | None
    registered: RegisteredWriter | None = None  # of a format with a schema registry

    @classmethod
    def of(cls, step: Step, sink: KafkaSink[Any]) -> TopicRecords:
        """Returns the maker for a step's sink."""
        kind = record_type(step.node.element_type) if sink.value_format == "json" else None
        registered = None
        if isinstance(sink.value_format, RegistryFormat):
            value_type = registered_type(sink.value_format, step.node.element_type, is_sink=True)
            registered = RegisteredWriter(sink.value_format, value_type)
        return cls(kind, sink.value_format, sink.topic, sink.key, registered)

    def encoder(self) -> Callable[[Sequence[Any], Sequence[str]], list[bytes]]:
        """Returns the function that makes the values of records, which go to topics."""
        if self.registered is not None:
            return self.registered.encode
        lines = self.lines
        if lines is None:
            return lambda values, topics: list(map(self._raw, values))
        return lambda values, topics: lines.encode(values).encode().split(b"\n")[:-1]

    @cached_property
    def lines(self) -> JsonLines | None:
        """What writes values as lines of JSON; None for other formats."""
        return None if self.kind is None else JsonLines(self.kind)

    def topics_of(self, values: Sequence[Any]) -> list[str]:
        """Returns the topic of each element."""
        return [self.topic] * len(values) if isinstance(self.topic, str) else list(map(self._topic_of, values))

    def keys_of(self, values: Sequence[Any]) -> list[bytes | None]:
        """Returns the key of each element."""
        return [None] * len(values) if self.key is None else list(map(self._key_of, values))

    def _raw(self, value: Any) -> bytes:
        if self.format == "text" and isinstance(value, str):
            return _encoded(value, "value")
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
        key: object = _called(self.key, value, "key")
        if isinstance(key, str):
            return _encoded(key, "key")
        if key is None or isinstance(key, bytes):
            return key
        raise InvalidArgumentError(
            "the key of a record is text or bytes",
            given=key,
            expected="str, bytes or None",
            hint="key=lambda element: str(element.number)",
        )


def _encoded(text: str, what: str) -> bytes:
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
            f"the {what} function of the sink raised {type(error).__name__}: {error}",
            given=f"element {shortened(value)}",
        ) from error

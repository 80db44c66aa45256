"""Reads and writes values as Confluent's serializers do: a zero byte, the id of the schema, then the value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from windrow.connectors.producer_record import without_none
from windrow.connectors.registry_formats import AvroFormat, ProtobufFormat, RegistryFormat
from windrow.errors import InvalidArgumentError, SinkError, SourceError
from windrow_kafka.registry.client import check_libraries, client_of, registry_errors
from windrow_kafka.registry.datum import plain_rows, plain_values
from windrow_runtime.codecs.malformed import MalformedValue, UnfitError, raw_text, short_repr
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType

# Any in this module: elements of every type, and pyarrow, fastavro and confluent-kafka have no types.

_NOT_FOUND = 404


def registered_type(value_format: RegistryFormat, annotation: object, *, is_sink: bool = False) -> RecordType | None:
    """Returns the type of values; None: they are messages of Protobuf as they are. It is refused if it does not fit."""
    if isinstance(value_format, ProtobufFormat):
        if without_none(annotation)[0] is value_format.message:
            return None
        check_libraries(value_format)
        from windrow_kafka.registry.protobuf import fit_message

        element_type = record_type(annotation)
        fit_message(value_format.message, element_type, is_sink=is_sink)
        return element_type
    from windrow_kafka.registry.avro_of_type import AvroSchema

    element_type = record_type(annotation)
    AvroSchema(element_type)
    return element_type


@dataclass(frozen=True)
class RegisteredReader:
    """Decodes values of one source, in a worker, which asks the registry for each schema once."""

    format: RegistryFormat
    record_type: RecordType | None  # None: values are messages of Protobuf
    takes_none: bool = False  # whether a record without value is None

    def values(self, payloads: Sequence[bytes | None]) -> list[Any]:
        """Returns the element of each value, or a ``MalformedRecord``."""
        if self.record_type is None:
            return [self._decoded(value) for value in payloads]
        from windrow_runtime.codecs.arrow.decoding import decode_batch

        rows, malformed = self.rows(payloads)
        misfits: list[MalformedValue] = []
        elements = iter(decode_batch(rows, self.record_type, misfits.append))
        good = [row for row in range(len(payloads)) if row not in malformed]
        malformed |= {good[bad.row or 0]: bad for bad in misfits}
        return [malformed[row] if row in malformed else next(elements) for row in range(len(payloads))]

    def rows(self, payloads: Sequence[bytes | None]) -> tuple[Any, dict[int, MalformedValue]]:
        """Returns values as columns, without those that are malformed, by their numbers."""
        import pyarrow as pa

        from windrow_runtime.codecs.arrow.encoding import arrow_schema, arrow_type

        assert self.record_type is not None, "messages are no columns"
        data_type = arrow_type(self.record_type.root)
        by_row = {row: self._decoded(value) for row, value in enumerate(payloads)}
        malformed = {row: each for row, each in by_row.items() if type(each) is MalformedValue}
        plain = {row: each for row, each in by_row.items() if row not in malformed}
        try:
            array = pa.array(list(plain.values()), data_type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            for row, each in plain.items():
                try:
                    pa.array([each], data_type)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    malformed[row] = self._malformed(payloads[row], f"{error}".splitlines()[0])
            array = pa.array([each for row, each in plain.items() if row not in malformed], data_type)
        if self.record_type.single:
            return pa.RecordBatch.from_arrays([array], schema=arrow_schema(self.record_type)), malformed
        return pa.RecordBatch.from_struct_array(array), malformed

    def _decoded(self, value: bytes | None) -> Any:
        """Returns a plain value, or a ``MalformedRecord``."""
        if value is None:
            return None if self.takes_none else MalformedValue("null", "the record has no value", None)
        if len(value) < 5 or value[0]:
            reason = (
                "cut off before the id of its schema" if value[:1] in (b"", b"\0") else "without a leading zero byte"
            )
            return self._malformed(value, f"the value is {reason}")
        number = int.from_bytes(value[1:5])
        decode = self._decoders.get(number)
        if decode is None:
            decode = self._decoders[number] = self._decoder(number)
        if isinstance(decode, str):
            return self._malformed(value, decode)
        try:
            return decode(value)
        except UnfitError as error:
            return self._malformed(value, f"by schema {number}: {error.reason}", error.path)
        except Exception as error:  # fastavro and Protobuf raise anything where bytes are no value
            shown = f"{type(error).__name__}: {error}" if f"{error}" else type(error).__name__
            return self._malformed(value, f"is no value of schema {number}: {shown.splitlines()[0]}")

    @staticmethod
    def _malformed(value: bytes | None, reason: str, path: str | None = None) -> MalformedValue:
        return MalformedValue(raw_text(repr(value)), reason, path)

    @cached_property
    def _decoders(self) -> dict[int, Callable[[bytes], Any] | str]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {"format": self.format, "record_type": self.record_type, "takes_none": self.takes_none}

    def _decoder(self, number: int) -> Callable[[bytes], Any] | str:
        """Returns what decodes values of a schema, or why that cannot be."""
        check_libraries(self.format)
        with registry_errors(self.format, SourceError, f"schema {number}"):
            try:
                as_bytes = {} if isinstance(self.format, AvroFormat) else {"fmt": "serialized"}
                schema = client_of(self.format).get_schema(number, **as_bytes)
            except Exception as error:
                if getattr(error, "http_status_code", None) == _NOT_FOUND:
                    return f"the registry has no schema {number}"
                raise
            wanted = "AVRO" if isinstance(self.format, AvroFormat) else "PROTOBUF"
            if (schema.schema_type or "AVRO") != wanted:
                return f"schema {number} is one of {schema.schema_type}, not of {wanted}"
            others = [] if as_bytes else referenced(client_of(self.format), schema)
        name = self.record_type or "a message"
        try:
            if isinstance(self.format, ProtobufFormat):
                return self._of_messages(self.format.message, schema.schema_str)
            from windrow_kafka.registry.avro_reader import avro_decoder

            assert self.record_type is not None, "messages alone are elements"
            return avro_decoder(schema.schema_str, others, self.record_type)
        except UnfitError as error:
            return f"schema {number} does not fit {name}: {error.path}: {error.reason}"

    def _of_messages(self, message: type[Any], schema_text: str) -> Callable[[bytes], Any]:
        from windrow_kafka.registry.protobuf import fit_message, message_decoder

        fitted = None if self.record_type is None else fit_message(message, self.record_type)
        return message_decoder(message, fitted, schema_text)


def referenced(client: Any, schema: Any) -> list[str]:
    """Returns the schemas that a schema refers to, each after its own references."""
    texts: list[str] = []
    for each in schema.references or ():
        other = client.get_version(each.subject, each.version).schema
        texts += [*referenced(client, other), other.schema_str]
    return texts


def _misfit(error: Exception, subject: str, value: Any) -> InvalidArgumentError:
    """The error for a value that does not fit a schema."""
    reason = error.reason if isinstance(error, UnfitError) else f"{type(error).__name__}: {error}"
    return InvalidArgumentError(
        f"a value does not fit the schema of {subject}: {reason}",
        given=short_repr(value),
        expected="what the schema has",
        where=error.path if isinstance(error, UnfitError) else None,
        hint="the schema in the registry is narrower than the type of the elements",
    )


class UnfitTypeError(InvalidArgumentError):
    """The type of all elements does not fit a schema, so that none of them can be written."""


@dataclass(frozen=True)
class RegisteredWriter:
    """Encodes elements of one sink, in a worker, by the schema of each topic's subject."""

    format: RegistryFormat
    record_type: RecordType | None  # None: elements are messages of Protobuf

    def check(self, topic: str) -> None:
        """Refuses a type that does not fit the schema that a topic has; a schema of its own is registered later."""
        if not self.format.auto_register:
            self._encoder(topic)

    def encode(self, values: Sequence[Any], topics: Sequence[str]) -> list[bytes]:
        """Returns the value of each element, for the topic to which it goes."""
        return self._framed(values if self.record_type is None else plain_values(values, self.record_type), topics)

    def encode_rows(self, rows: Any, topic: str) -> list[bytes]:
        """Does what :meth:`encode` does, for the elements of an Arrow batch, which are no messages."""
        assert self.record_type is not None, "messages are no columns"
        return self._framed(plain_rows(rows, self.record_type), [topic] * rows.num_rows)

    def _framed(self, plain: Sequence[Any], topics: Sequence[str]) -> list[bytes]:
        encoded: list[bytes] = []
        start = 0
        for end in range(1, len(plain) + 1):
            if end == len(plain) or topics[end] != topics[start]:
                encoded += self._encoder(topics[start])(plain[start:end])
                start = end
        return encoded

    @cached_property
    def _encoders(self) -> dict[str, Callable[[Sequence[Any]], list[bytes]]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {"format": self.format, "record_type": self.record_type}

    def _encoder(self, topic: str) -> Callable[[Sequence[Any]], list[bytes]]:
        if topic not in self._encoders:
            check_libraries(self.format)
            subject = self.format.subject or f"{topic}-value"
            make = self._avro if isinstance(self.format, AvroFormat) else self._protobuf
            with registry_errors(self.format, SinkError, f"the schema of {subject}"):
                try:
                    encode_value = make(subject, topic)
                except UnfitError as error:
                    raise UnfitTypeError(
                        f"the type of the elements does not fit the schema of {subject}: {error.reason}",
                        given="messages" if self.record_type is None else self.record_type.name,
                        expected="the fields and types of the schema",
                        where=error.path,
                        hint="map the elements to a record with the fields of the schema, or give another subject",
                    ) from None

            def encode(values: Sequence[Any]) -> list[bytes]:
                encoded: list[bytes] = []
                for value in values:
                    try:
                        encoded.append(encode_value(value))
                    except Exception as error:  # fastavro and Protobuf raise anything for a value that does not fit
                        raise _misfit(error, subject, value) from error
                return encoded

            self._encoders[topic] = encode
        return self._encoders[topic]

    def _avro(self, subject: str, topic: str) -> Callable[[Any], bytes]:
        import confluent_kafka.schema_registry as registry

        from windrow_kafka.registry.avro_of_type import AvroSchema
        from windrow_kafka.registry.avro_writer import avro_encoder

        assert self.record_type is not None, "messages are of Protobuf"
        client = client_of(self.format)
        if self.format.auto_register:
            text = AvroSchema(self.record_type).text
            others: list[str] = []
            schema_of: Any = registry.Schema  # made by attrs, whose types are not there without it
            number = client.register_schema(subject, schema_of(text, "AVRO"))
        else:
            latest = client.get_latest_version(subject)
            number, text, others = latest.schema_id, latest.schema.schema_str, referenced(client, latest.schema)
        return avro_encoder(text, others, self.record_type, b"\0" + number.to_bytes(4))

    def _protobuf(self, subject: str, topic: str) -> Callable[[Any], bytes]:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        from windrow_kafka.registry.protobuf import first_bytes, fit_message

        assert isinstance(self.format, ProtobufFormat), "asked by the caller"
        message = self.format.message
        write = None if self.record_type is None else fit_message(message, self.record_type, is_sink=True).write
        if self.format.auto_register:
            settings: dict[str, Any] = {"auto.register.schemas": True, "subject.name.strategy": lambda *_: subject}
            serialize = ProtobufSerializer(message, client_of(self.format), settings)
            # Of an empty message there are the first bytes alone: the id, and the place of the message in its file.
            first: bytes = serialize(message(), SerializationContext(topic, MessageField.VALUE))
        else:
            latest = client_of(self.format).get_latest_version(subject, fmt="serialized")
            first = first_bytes(message, latest.schema_id, latest.schema.schema_str)
        if write is not None:
            return lambda value: first + write(value).SerializeToString()

        def encode_message(value: Any) -> bytes:
            if not isinstance(value, message):
                wanted = message.DESCRIPTOR.full_name
                raise UnfitError(message.__name__, f"it is a {type(value).__name__}, not a {wanted}")
            encoded: bytes = first + value.SerializeToString()
            return encoded

        return encode_message

"""Defines formats of Kafka values with schemas in a registry: Avro and Protobuf, as Confluent's serializers do.

A value begins with a zero byte and the id of its schema, as Flink's ``avro-confluent`` and ``protobuf-confluent`` have
it. They need the extra ``kafka-avro`` or ``kafka-protobuf``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windrow.addresses.redaction import redact, redact_options, secrets_in
from windrow.errors import InvalidArgumentError

# Any in this module: generated message classes have no common type that the language knows.


@dataclass(frozen=True, kw_only=True, repr=False)
class RegistryFormat:
    """The base class of :class:`AvroFormat` and :class:`ProtobufFormat`.

    Attributes:
        registry: The address of the registry.
        subject: The subject under which a sink finds its schema; None: the topic's name and ``-value``.
        auto_register: Whether a sink registers its schema; otherwise it writes by the subject's latest one.
        options: Further options of confluent-kafka's ``SchemaRegistryClient``, such as ``basic.auth.user.info``.
    """

    registry: str = field(kw_only=False)
    subject: str | None = None
    auto_register: bool = True
    options: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    def __post_init__(self) -> None:
        if not self.registry.startswith(("http://", "https://", "mock://")):
            raise InvalidArgumentError(
                "a registry has an address",
                given=redact(self.registry),
                expected='such as "http://localhost:8081", or "mock://name" in tests',
            )
        if "url" in self.options:
            raise InvalidArgumentError(
                "an argument sets this option", given="url", expected="the address as registry=", hint="leave it out"
            )
        object.__setattr__(self, "options", dict(self.options))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets in the address and the options."""
        named = {f"{name}.secret" if name.startswith("basic.auth.user") else name: value
                 for name, value in self.options.items()}  # fmt: skip
        return secrets_in({"url": self.registry, **named})

    def __repr__(self) -> str:
        options = {name: redact(value, self.secrets) for name, value in redact_options(self.options).items()}
        arguments = [repr(redact(self.registry)), *self._arguments()]
        arguments += [f"subject={self.subject!r}"] if self.subject is not None else []
        arguments += [] if self.auto_register else ["auto_register=False"]
        arguments += [f"options={options}"] if options else []
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _arguments(self) -> list[str]:
        return []


@dataclass(frozen=True, kw_only=True, repr=False)
class AvroFormat(RegistryFormat):
    """Values in Avro, each after the id of the schema with which it was written.

    The schema is made of the type of the values: dataclasses and other records, also within each other, as records;
    lists, sets and ``tuple[X, ...]`` as arrays; ``dict[str, X]`` as maps; ``X | None`` as a union with null;
    ``datetime`` as ``timestamp-micros``, ``date``, ``Decimal`` and ``UUID`` as their logical types; an Enum by the
    values of its members. Avro has no form for a ``timedelta``, a ``dict`` by other keys than texts, and any JSON: a
    source with such a type is refused when it is made, and a sink when its pipeline is made.

    A source reads what was written by other schemas, by Avro's rules: fields are matched by name, those that the type
    lacks are passed over, and a field that the schema lacks gets its default. A value of a union is read if the type
    fits the branch of the value; of several records in a union that is the one with the name of the class. Elsewhere
    names of records do not matter. A value whose schema does not fit, or is not in the registry, or that is cut off,
    or that its type does not hold exactly, is malformed: its reason names the id of the schema, and its origin topic,
    partition and offset.

    Args:
        registry: The address of the registry; a password in it, and those among the options, are not shown.
            ``"mock://name"`` is a registry within the process, for tests in the interpreter; Spark refuses it.
        subject: The subject of the sink's schema; by default the topic's name and ``-value``. Sources need none: each
            value has the id of its schema.
        auto_register: Whether a sink registers its schema; otherwise it writes by the latest one of the subject, which
            has to have the fields and types of the elements. Sources register none.
        options: Further options of confluent-kafka's ``SchemaRegistryClient``.

    Raises:
        InvalidArgumentError: For an address that is none.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class ProtobufFormat(RegistryFormat):
    """Values in Protobuf, each after the id of its schema and the place of its message in it.

    The type of the values is a record whose fields have the names of the message's, or the message class itself.
    A source passes over fields that the record lacks; fields of the record that the message lacks have to have a
    default. A field of a message's type, such as ``StringValue``, or an ``optional`` one, that is absent is None, where
    the record allows it. A value of another message than the class is malformed. The record of a sink has the fields of
    the message: only fields that may be absent, and repeated ones, may be missing in it.

    Args:
        registry: The address of the registry, as for :class:`AvroFormat`.
        message: The class that ``protoc`` has generated. Workers import it by its name.
        subject: The subject of the sink's schema, as for :class:`AvroFormat`; sources need none.
        auto_register: Whether a sink registers its schema; otherwise it writes with the id of the latest one, which
            has to have the message with its fields.
        options: Further options of confluent-kafka's ``SchemaRegistryClient``.

    Raises:
        InvalidArgumentError: For an address, or a class, that is none.
    """

    message: type[Any] = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.message, "DESCRIPTOR") or not hasattr(self.message, "FromString"):
            raise InvalidArgumentError(
                "the class is no message of Protobuf",
                given=self.message,
                expected="a class that protoc has generated",
                hint="such as readings_pb2.Reading",
            )

    def _arguments(self) -> list[str]:
        return [self.message.__name__]

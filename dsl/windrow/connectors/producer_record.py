"""Defines the record by which elements of a Kafka sink state key, headers and more, and the types of sinks' values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from windrow.plan.fitting import options_of

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class ProducerRecord(Generic[T_co]):
    """A record for a :class:`~windrow.kafka.KafkaSink` to write, with a key, headers, a timestamp or a partition.

    It is what ``ProducerRecord`` is in Java, and what a ``KafkaRecordSerializationSchema`` of Flink's returns; the
    topic is that of the sink.

    Attributes:
        value: The value, which the sink encodes; None of a type that is Optional: the record is a tombstone.
        key: The key, a ``str`` as UTF-8; None: the record has none.
        headers: The headers, in order.
        timestamp: When the record was made, as a datetime with a time zone or in milliseconds since 1970; None: when
            it is written.
        partition: The partition; None: that of the key, or any.

    Example:
        >>> from windrow.kafka import ProducerRecord
        >>> ProducerRecord({"total": 7}, key="order-1", headers=(("trace", b"ab12"),)).key
        'order-1'
    """

    value: T_co
    key: bytes | str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: datetime | int | None = None
    partition: int | None = None


class WrittenType(NamedTuple):
    """The type of the values that a Kafka sink encodes.

    Attributes:
        value: The type, without None; None: it is not known.
        takes_none: Whether a value may be None, which makes a tombstone.
        of_records: Whether the elements are records with a value; None: their types are not known.
    """

    value: object | None
    takes_none: bool
    of_records: bool | None


def written_type(element_type: object | None, *records: type) -> WrittenType:
    """The type of the values that a sink encodes of elements, where some classes, and this module's, are records."""
    if element_type is None:
        return WrittenType(None, True, None)
    # A function may give records of several types, such as some with a value and some without.
    options = options_of(element_type)
    if any((get_origin(option) or option) not in (ProducerRecord, *records) for option in options):
        return WrittenType(*without_none(element_type), False)
    arguments = [get_args(option) for option in options]
    if not all(arguments):
        return WrittenType(None, True, True)
    # Any: the members of a union are known at run time only.
    union: Any = Union
    return WrittenType(*without_none(union[tuple(kind for (kind,) in arguments)]), True)


def without_none(kind: Any) -> tuple[object, bool]:
    """A type without None, if that leaves one, and whether it has None. A TypeVar's argument may be None itself."""
    others = [member for member in get_args(kind) if member is not NoneType]
    if get_origin(kind) in (Union, UnionType) and len(others) == 1:
        return others[0], True
    return kind, NoneType in options_of(kind)

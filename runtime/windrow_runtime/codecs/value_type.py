"""Defines the types of values that columns hold, which ``record_type`` makes from annotations."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
from collections.abc import Callable, Collection
from typing import Final

from windrow.formats import DateFormat, EpochTime

# Spark's widest decimal, with its default scale for Python's Decimal.
DECIMAL_PRECISION = 38
DECIMAL_SCALE = 18
INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class Kind(enum.Enum):
    """The kinds of values that have a column form."""

    NONE = "None"
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STR = "str"
    BYTES = "bytes"
    DECIMAL = "Decimal"
    UUID = "UUID"
    ENUM = "Enum"
    DATETIME = "datetime"
    DATE = "date"
    TIMEDELTA = "timedelta"
    LIST = "list"
    TUPLE = "tuple"
    VARIADIC_TUPLE = "tuple[...]"
    SET = "set"
    FROZENSET = "frozenset"
    DICT = "dict"
    RECORD = "record"
    JSON = "JsonValue"
    RAW_JSON = "RawJson"


COLLECTIONS: Final = frozenset({Kind.LIST, Kind.VARIADIC_TUPLE, Kind.SET, Kind.FROZENSET})
"""The kinds whose values have any number of elements of one type."""

NESTED: Final = COLLECTIONS | {Kind.TUPLE, Kind.DICT, Kind.RECORD}
"""The kinds of values with parts."""

ANY_JSON: Final = frozenset({Kind.JSON, Kind.RAW_JSON})
"""The kinds of values that are any JSON; columns hold them as JSON texts."""

JSON_NULL: Final = object()
"""Marks a ``None`` that is the value of a ``NotRequired`` key of any JSON, in contrast to a missing key."""

JSON_CELLS: Final = NESTED | ANY_JSON
"""The kinds of values that CSV and databases hold as JSON texts."""


class RecordShape(enum.Enum):
    """The ways to write a record."""

    DATACLASS = "dataclass"
    NAMED_TUPLE = "NamedTuple"
    STRUCT = "msgspec.Struct"
    TYPED_DICT = "TypedDict"


@dataclasses.dataclass(frozen=True, slots=True)
class DefaultFactory:
    """A default value as a factory; a class, because it must pickle."""

    value: object

    def __call__(self) -> object:
        return self.value


@dataclasses.dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record."""

    name: str  # the attribute (or key) in Python
    column: str  # the name of the column and of the JSON key; differs from the name where a Struct renames
    type: ValueType
    default: Callable[[], object] | None = dataclasses.field(default=None, compare=False)
    absent_allowed: bool = False  # a NotRequired key of a TypedDict: a null column means that the key is absent
    # The value in all records of a file, whatever the file holds.
    constant: DefaultFactory | None = dataclasses.field(default=None, compare=False)

    @property
    def required(self) -> bool:
        """Returns whether a source must have this column: no default, and ``None`` is not a value of it."""
        return self.default is None and not self.absent_allowed and not self.type.nullable

    @property
    def column_type(self) -> ValueType:
        """The type of the column: nullable where the key may be absent."""
        return dataclasses.replace(self.type, nullable=True) if self.absent_allowed else self.type

    def in_timezone(self, zone: datetime.tzinfo) -> RecordField:
        """The same field with a time zone for datetimes without an offset."""
        return dataclasses.replace(self, type=self.type.in_timezone(zone))


@dataclasses.dataclass(frozen=True, slots=True)
class ValueType:
    """The type of the values that a column, or a part of one, holds."""

    kind: Kind
    python_type: type  # the class of the values, such as int, list or Reading
    nullable: bool = False
    # The element of a list or set, the key and value of a dict, the parts of a tuple, the values of an Enum.
    arguments: tuple[ValueType, ...] = ()
    fields: tuple[RecordField, ...] = ()
    shape: RecordShape | None = None
    by_keyword: bool = False  # whether the constructor of a record cannot take all fields by position, in their order
    sequence: bool = False  # whether a list was written as Sequence: tuples are welcome when encoding
    # Where the clock of datetimes without an offset is that a source reads; None: they do not fit.
    timezone: datetime.tzinfo | None = dataclasses.field(default=None, compare=False)
    # The digits of decimals in columns: how many in all, and how many of them after the point.
    precision: int = DECIMAL_PRECISION
    scale: int = DECIMAL_SCALE
    # How JSON and CSV have a datetime or a date; None: ISO 8601. Columns are the same for all.
    time_format: DateFormat | EpochTime | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        if self.kind is Kind.NONE:
            return "None"
        name = self.kind.value if self.kind in ANY_JSON else self.python_type.__name__
        if self.arguments and self.kind is not Kind.ENUM:
            more = ", ..." if self.kind is Kind.VARIADIC_TUPLE else ""
            name = f"{name}[{', '.join(map(str, self.arguments))}{more}]"
        if not self.has_default_digits:
            name = f"{name}({self.precision}, {self.scale})"
        return f"{name} | None" if self.nullable and self.kind is not Kind.JSON else name

    @property
    def has_default_digits(self) -> bool:
        """Returns whether decimals have the digits of a field whose annotation says none."""
        return (self.precision, self.scale) == (DECIMAL_PRECISION, DECIMAL_SCALE)

    def holds_decimals(self, precision: int, scale: int) -> bool:
        """Returns whether columns of this type hold each number of a column of that precision and scale."""
        return scale <= self.scale and precision - scale <= self.precision - self.scale

    def contains(self, *kinds: Kind) -> bool:
        """Returns whether a value of one of these kinds may be in here, at any depth."""
        return self.kind in kinds or any(part.contains(*kinds) for part in self.inner)

    @property
    def inner(self) -> tuple[ValueType, ...]:
        """The types directly within this one."""
        return (*self.arguments, *(field.type for field in self.fields))

    @property
    def scalar_kind(self) -> Kind:
        """The kind of the values as columns hold them: for an Enum, the kind of its members' values."""
        return self.arguments[0].kind if self.kind is Kind.ENUM else self.kind

    @property
    def columns(self) -> tuple[RecordField, ...]:
        """The fields of a record, or the parts of a tuple as fields."""
        if self.kind is Kind.RECORD:
            return self.fields
        return tuple(RecordField(f"[{i}]", f"_{i + 1}", part) for i, part in enumerate(self.arguments))

    def admits(self, value_class: type) -> bool:
        """Returns whether values of a class belong to this type, ``None`` aside.

        A subclass that would be lost on the way does not; numpy's scalars do, and an int where a float is due.
        """
        kind = self.kind
        if kind is Kind.RECORD and self.shape is not RecordShape.TYPED_DICT:
            return value_class is self.python_type
        if kind is Kind.BOOL:
            return value_class is bool or (
                value_class.__module__ == "numpy" and value_class.__name__ in ("bool", "bool_")
            )
        if kind is Kind.INT:
            return issubclass(value_class, numbers.Integral) and not issubclass(value_class, bool)
        if kind is Kind.FLOAT:
            return (issubclass(value_class, (int, float)) and value_class is not bool) or (
                value_class.__module__ == "numpy" and issubclass(value_class, numbers.Real)
            )
        if kind is Kind.DATE:
            return issubclass(value_class, datetime.date) and not issubclass(value_class, datetime.datetime)
        if kind is Kind.DICT or kind is Kind.RECORD:
            return issubclass(value_class, dict)
        if kind is Kind.LIST and self.sequence:
            return issubclass(value_class, (list, tuple))
        return issubclass(value_class, self.python_type)

    @property
    def may_lack_keys(self) -> bool:
        """Returns whether a key of a TypedDict may be absent, at any depth."""
        return any(field.absent_allowed for field in self.fields) or any(part.may_lack_keys for part in self.inner)

    def in_timezone(self, zone: datetime.tzinfo) -> ValueType:
        """The same type with a time zone for datetimes without an offset, at any depth."""
        return dataclasses.replace(
            self,
            arguments=tuple(part.in_timezone(zone) for part in self.arguments),
            fields=tuple(field.in_timezone(zone) for field in self.fields),
            timezone=zone if self.kind is Kind.DATETIME else None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class RecordType:
    """The columns of a stream's elements.

    A record has a column per field and a tuple has ``_1``, ``_2`` and so on; any other element is one column,
    called ``value``. The name is the type as text; error messages start their paths with it.
    """

    annotation: object = dataclasses.field(compare=False)
    name: str
    root: ValueType
    columns: tuple[RecordField, ...]

    @property
    def single(self) -> bool:
        """Returns whether the element is one value in a column called ``value``."""
        return self.root.nullable or self.root.kind not in (Kind.RECORD, Kind.TUPLE)

    @property
    def prefix(self) -> str:
        """What the path of a column begins with, before the name of its field."""
        return "" if self.single else f"{self.name}."

    def in_timezone(self, zone: datetime.tzinfo | None) -> RecordType:
        """Returns the type with the time zone that a source gives to datetimes without an offset."""
        if zone is None:
            return self
        columns = tuple(field.in_timezone(zone) for field in self.columns)
        return dataclasses.replace(self, root=self.root.in_timezone(zone), columns=columns)

    def without(self, fields: Collection[RecordField]) -> RecordType:
        """The type of records that lack some fields, which stand elsewhere, such as in the names of folders."""
        columns = tuple(field for field in self.columns if field not in fields)
        return dataclasses.replace(self, root=dataclasses.replace(self.root, fields=columns), columns=columns)

    def __str__(self) -> str:
        return self.name

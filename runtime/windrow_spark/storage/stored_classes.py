"""Knows the classes whose values may be stored, and builds values of them from stored bytes.

A class is looked up by name among those that the plan names, and nowhere else. No value is built by calling a function
that stored bytes name: a record is built from its fields, an Enum member is looked up by its name, and an object of any
other class gets its attributes set, without a call of its constructor.

Nor does building a record call code of its class, such as ``__post_init__``: whoever writes stored bytes chooses the
class and the fields. That code ran when the record was first made, and the record is restored as it was.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, EnumMeta, Flag, auto
from fractions import Fraction
from itertools import repeat
from typing import Any, Final
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import msgspec

from windrow.aggregates.sketches import HllSketch, KllSketch
from windrow.errors import IncompatibleStateError
from windrow.facts.packages import is_of_windrow
from windrow.failures import Failed
from windrow.functions.marked import Tagged
from windrow.kafka import KafkaRecord, ProducerRecord
from windrow.panes import Change, ChangeKind, PaneInfo, PaneTiming, WindowResult
from windrow.plan.records import reading_hook
from windrow.rows.equality import NotANumber
from windrow.side_inputs.mapping import ViewMapping
from windrow.sources import MalformedRecord, RateRecord
from windrow.windows import GlobalWindow, TimeWindow, Window
from windrow_runtime.codecs.records import (
    UserClass,
    construct,
    is_plain_named_tuple,
    per_class,
    record_fields,
    struct_fields,
)
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_runtime.operators.windows.pane_state import PaneState

# Any throughout this module: classes and values of the user's.

STANDARD_CLASSES: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(Counter, OrderedDict, deque, date, datetime, time, timedelta, timezone, ZoneInfo),
        *(Decimal, Fraction, UUID, type(None)),
    )
}
"""Classes that may themselves be stored as values, such as the factory of a defaultdict, by their names."""
_FACTORIES: Final = frozenset(STANDARD_CLASSES.values())
_OWN_RECORDS: Final = (
    *(
        TimeWindow,
        GlobalWindow,
        KafkaRecord,
        ProducerRecord,
        RateRecord,
        MalformedRecord,
        HllSketch,
        KllSketch,
        TtlTimer,
    ),
    *(SafeUUID, PaneState, PaneInfo, PaneTiming, WindowResult, Change, ChangeKind, Failed, Tagged),
    *(NotANumber, ViewMapping),
)
"""Value classes of windrow and of the standard library that a state may hold though no annotation names them."""
_OPEN_BASES: Final = frozenset({TimeWindow, GlobalWindow, Window})
"""Classes of windrow whose subclasses are values. Subclasses of others, such as functions and triggers, are not."""


class StoredForm(Enum):
    """The parts of a value that are stored, and from which it is rebuilt; the class of the value decides."""

    MEMBER = auto()  # the name of an Enum member
    FIELDS = auto()  # the fields of a record
    PLAIN = auto()  # the value of the builtin class from which the class derives, and attributes
    ATTRIBUTES = auto()  # the attributes
    NONE = auto()  # not storable: the class has __del__ or pickling methods, or objects hold more than attributes


_PLAIN: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    int: lambda value: int.__getnewargs__(value)[0],
    float: lambda value: float.__getnewargs__(value)[0],
    str: lambda value: str.__getnewargs__(value)[0],
    bytes: lambda value: bytes.__getnewargs__(value)[0],
    complex: lambda value: complex(value.real, value.imag),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
}
"""Functions that return an object's builtin value, by the builtin class; they call no method of the user's class."""
_FILL: Final[Mapping[type[Any], Callable[[Any, Any], object]]] = {list: list.extend, set: set.update, dict: dict.update}
"""Functions that fill an empty mutable object, by its builtin class; others get their value when they are made."""


class StoredClasses:
    """The classes that one plan names, and windrow's own, by the names under which they are stored.

    A class that moved to another module is found by the rest of its name, as :func:`moved_classes` says.
    """

    def __init__(self, classes: Iterable[UserClass]) -> None:
        classes = tuple(classes)
        self._kinds: dict[str, type[Any]] = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in _OWN_RECORDS}
        for user_class in classes:
            if not any(
                is_of_windrow(base.__module__) and base not in _OPEN_BASES for base in user_class.class_.__mro__
            ):
                # Over Spark Connect the `__qualname__` of a class made inside a function lacks the function's name.
                self._kinds[f"{user_class.class_.__module__}:{user_class.qualified}"] = user_class.class_
        self._names = {kind: name for name, kind in self._kinds.items()}
        self._moved = moved_classes(each for each in classes if each.class_ in self._names)

    def name_of(self, class_: type[Any]) -> str | None:
        """Returns the name under which values of a class are stored; None if the plan does not name the class."""
        return self._names.get(class_)

    def find(self, name: object, *forms: StoredForm) -> type[Any]:
        """Looks up a stored name; raises if it is unknown, or if the class is stored in none of these forms."""
        class_ = self._kinds.get(name) or self._moved.get(name.partition(":")[2]) if isinstance(name, str) else None
        if class_ is None:
            raise refused(f"{name!r:.200}")
        if forms and stored_form_of(class_) not in forms:
            raise refused(f"{name} by {' or '.join(form.name for form in forms)}")
        return class_


def moved_classes(classes: Iterable[UserClass]) -> dict[str, type[Any]]:
    """Returns the classes of a plan by their names without the module, where no two classes share one.

    Stored values whose class is in another module by now are read by them: a class may move, a file may get another
    name, and a main program is another module when it is imported, as ``windrow run`` does. The plan's shape and the
    stored fields refuse a class that is another one.
    """
    by_name: dict[str, set[type[Any]]] = {}
    for each in classes:
        by_name.setdefault(each.qualified, set()).add(each.class_)
    return {name: next(iter(kinds)) for name, kinds in by_name.items() if len(kinds) == 1}


def refused(name: str) -> IncompatibleStateError:
    """Returns the error for a class that stored bytes name and the plan does not."""
    return IncompatibleStateError(
        "stored state names a class that the plan does not know",
        given=name,
        expected="a class that the plan names, in annotations or in the code of its functions",
        hint="use the plan that wrote the checkpoint; a class that was renamed needs a new checkpoint",
    )


@per_class
def stored_form_of(class_: type[Any]) -> StoredForm:
    """Returns in which form values of a class are stored."""
    if issubclass(class_, Enum):
        # Calling an Enum without members would create classes.
        return StoredForm.MEMBER if class_.__members__ else StoredForm.NONE
    if hasattr(class_, "__del__"):
        # Whoever writes the bytes would choose the objects that __del__ is called on.
        return StoredForm.NONE
    if _is_record(class_):
        return StoredForm.FIELDS
    base = _base_of(class_)
    others = (msgspec.Struct, Counter, OrderedDict, defaultdict, deque)
    if issubclass(class_, others) or not _pickles_as(class_, base):
        return StoredForm.NONE
    if base is not object:
        return StoredForm.PLAIN
    try:
        object.__new__(class_)
    except TypeError:  # a class written in C may hold what no attribute shows
        return StoredForm.NONE
    return StoredForm.ATTRIBUTES


def _pickles_as(class_: type[Any], base: type[Any]) -> bool:
    """Returns whether a class inherits the methods for pickling from its builtin base."""
    names = ["__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"]
    if base is not tuple:  # a named tuple has it from its fields
        names += ["__getnewargs__", "__getnewargs_ex__"]
    methods = [(getattr(class_, name, None), getattr(base, name, None)) for name in names]
    return all(own is inherited or _is_generated(class_, own) for own, inherited in methods)


def _is_generated(class_: type[Any], method: Any) -> bool:
    """Returns whether dataclasses or attrs generated the method, which then gets or sets slots."""
    module = getattr(method, "__module__", None) or ""
    return (dataclasses.is_dataclass(class_) and module == "dataclasses") or (
        hasattr(class_, "__attrs_attrs__") and module.partition(".")[0] == "attr"
    )


# Enums, and objects that have attributes


def holds_flags(class_: type[Enum]) -> bool:
    """Returns whether an Enum has combined flags, which can be looked up without running code of the user's."""
    return (
        issubclass(class_, Flag)
        and class_._missing_.__func__ is Flag._missing_.__func__  # type: ignore[attr-defined]  # it is a class method
        and type(class_).__call__ is EnumMeta.__call__
    )


def _base_of(class_: type[Any]) -> type[Any]:
    return next((base for base in _PLAIN if issubclass(class_, base)), object)


def plain_value(class_: type[Any]) -> Callable[[Any], Any]:
    """Returns a function for the builtin value of objects of a class; it returns None if the class has no such base."""
    return _PLAIN.get(_base_of(class_), lambda value: None)


def object_maker(class_: type[Any]) -> Callable[[Any], Any]:
    """Returns a function that makes an object from its builtin value, without calling methods of the class."""
    base = _base_of(class_)
    new: Any = base.__new__  # not that of the user's class
    fill = _FILL.get(base)

    def make(value: Any) -> Any:
        if base is object:
            return new(class_)
        if type(value) is not base:
            raise TypeError(f"{type(value).__name__} for a {base.__name__}")
        if fill is None:
            return new(class_, value)
        empty = new(class_)
        fill(empty, value)
        return empty

    return make


# Records


def _is_record(class_: type[Any]) -> bool:
    """Returns whether :func:`build_records` can build records of a class."""
    if _only_sets_fields(class_):
        return True
    if issubclass(class_, tuple):
        return class_.__bases__[0] is tuple and getattr(class_, "_fields", None) == ()
    if not (issubclass(class_, msgspec.Struct) and _has_plain_metaclass(class_)) or reading_hook(class_) is not None:
        return False
    try:
        _twin(class_)
    except Exception:  # the bases of the Struct are the user's, and may raise anything
        return False
    return True


def fields_of(class_: type[Any]) -> tuple[str, ...]:
    """Returns the names of a record class's fields."""
    return record_fields(class_) or getattr(class_, "__struct_fields__", ())


def build_records(class_: type[Any], fields: Sequence[Any], columns: Sequence[Sequence[Any]], count: int) -> list[Any]:
    """Builds ``count`` records of a class from the stored names of fields and a column of values for each.

    A field that the class has gained since gets its default; it is an error if there is none, or no field is left.
    """
    now = fields_of(class_)
    if now != tuple(fields):
        columns = _fitted(class_, dict(zip(fields, columns, strict=True)), count)
    if _only_sets_fields(class_):
        return construct(class_, columns)
    if not issubclass(class_, msgspec.Struct):
        return [tuple.__new__(class_) for _ in range(count)]
    twin = _twin(class_)
    if columns and now == class_.__match_args__:
        records = construct(twin, columns)
    else:
        rows = zip(*columns, strict=True) if columns else [()] * count
        records = [twin(**dict(zip(now, row, strict=True))) for row in rows]
    for record in records:
        _set_class(record, class_)
    return records


_set_class: Final[Callable[[object, type[Any]], None]] = vars(object)["__class__"].__set__


def _fitted(class_: type[Any], stored: dict[Any, Sequence[Any]], count: int) -> list[Sequence[Any]]:
    """Fits stored columns to a record class whose fields have changed."""
    now = fields_of(class_)
    makers = default_makers(class_)
    if any(field not in stored and field not in makers for field in now) or (stored and stored.keys().isdisjoint(now)):
        raise IncompatibleStateError(
            f"stored values of {class_.__module__}:{class_.__qualname__} do not fit the class as it is now",
            given=f"fields {', '.join(map(str, stored))}",
            expected=f"fields {', '.join(now)}; a new one needs a default",
            hint="give the new field a default, or a class such as list as its factory (reading state calls no "
            "function of the user's), or use a new checkpoint",
        )
    return [stored[field] if field in stored else [makers[field]() for _ in range(count)] for field in now]


@per_class
def _only_sets_fields(class_: type[Any]) -> bool:
    """Returns whether the constructor of a class takes its fields in order, and runs no code that the user wrote."""
    names = record_fields(class_)
    if not names:
        return False
    if issubclass(class_, tuple):
        return is_plain_named_tuple(class_)
    if issubclass(class_, msgspec.Struct):
        return _has_plain_metaclass(class_)
    return True


def _has_plain_metaclass(class_: type[Any]) -> bool:
    own, plain = type(class_), msgspec.StructMeta
    return own.__call__ is plain.__call__ and own.__new__ is plain.__new__


class _Quiet:
    """Keeps ``__init_subclass__`` of the user's class from being called."""

    __slots__ = ()

    def __init_subclass__(cls, **_: object) -> None:
        pass


@per_class
def _twin(kind: Any) -> type[Any]:
    """Makes a Struct like another without ``__post_init__``, which msgspec always calls; instances change class."""
    # With the other base, instances of a Struct without fields would have another memory layout.
    bases = (_Quiet, kind) if kind.__struct_fields__ else (kind,)
    space = {"__module__": __name__, "__post_init__": lambda record: None}
    twin: type[Any] = type(kind)(kind.__name__, bases, space)
    return twin


def default_makers(class_: type[Any]) -> dict[str, Callable[[], Any]]:
    """Returns functions that make the defaults of fields without calling the user's functions.

    They lack fields whose factory is not a standard class such as ``list``.
    """
    missing = dataclasses.MISSING
    defaults: dict[str, tuple[Any, Any]]  # the default and the factory of each field
    if issubclass(class_, msgspec.Struct):
        struct_field_items = struct_fields(class_).items()
        defaults = {
            name: (options.get("default", missing), options.get("default_factory", missing))
            for name, options in struct_field_items
        }
    elif dataclasses.is_dataclass(class_):
        defaults = {field.name: (field.default, field.default_factory) for field in dataclasses.fields(class_)}
    else:
        defaults = {name: (value, missing) for name, value in getattr(class_, "_field_defaults", {}).items()}
    return {
        name: factory if default is missing else repeat(default).__next__
        for name, (default, factory) in defaults.items()
        if default is not missing or factory in _FACTORIES
    }

"""The classes whose values may be stored, and how their values are taken apart and built again.

A class is found by its name among those that the plan names, and nowhere else. No value is built by calling a function
that stored bytes name: a record is built by its fields, an Enum member is looked up by its name, and an object of any
other class gets its attributes back, without a call of its constructor.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from enum import Enum, EnumMeta, Flag, auto
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import SafeUUID

import msgspec

from windrow.aggregates.sketches import HllSketch, KllSketch
from windrow.errors import IncompatibleStateError
from windrow.kafka import KafkaRecord
from windrow.sources import MalformedRecord, RateRecord
from windrow.windows import GlobalWindow, TimeWindow, Window
from windrow_runtime.codecs.records import UserClass
from windrow_runtime.operators.class_facts import is_of_windrow
from windrow_runtime.operators.state.time_to_live import TtlTimer
from windrow_runtime.storage.stored_records import is_record

# Any throughout this module: classes and values of the user's.

_OWN_RECORDS: Final = (
    *(TimeWindow, GlobalWindow, KafkaRecord, RateRecord, MalformedRecord, HllSketch, KllSketch, TtlTimer),
    SafeUUID,
)
"""Value classes of windrow and of the standard library that a state may hold though no annotation names them."""
_OPEN_BASES: Final = frozenset({TimeWindow, GlobalWindow, Window})
"""Classes of windrow whose subclasses are values. Subclasses of others, such as functions and triggers, are not."""


class Way(Enum):
    """Takes values of a class apart, and makes them again."""

    MEMBER = auto()
    """The name of an Enum member."""
    FIELDS = auto()
    """The fields of a record."""
    PLAIN = auto()
    """A value of a builtin class from which the class derives, and attributes."""
    ATTRIBUTES = auto()
    """The attributes."""
    NONE = auto()
    """The class has methods for its end or for pickling, or its objects hold more than attributes."""


class _Base(NamedTuple):
    """A builtin class from which a user's class may derive.

    Attributes:
        kind: The class.
        plain: Gives the builtin value of an object, past the methods of the user's class.
        fill: Fills an empty object; None: the value is given when the object is made.
    """

    kind: type[Any]
    plain: Callable[[Any], Any]
    fill: Callable[[Any, Any], object] | None = None


def _argument(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda value: kind.__getnewargs__(value)[0]


def _items(kind: type[Any]) -> Callable[[Any], Any]:
    return lambda value: kind(kind.__iter__(value))


_BASES: Final = (
    *(_Base(kind, _argument(kind)) for kind in (int, float, str, bytes)),
    _Base(complex, lambda value: complex(value.real, value.imag)),
    *(_Base(kind, _items(kind)) for kind in (tuple, frozenset)),
    _Base(list, _items(list), list.extend),
    _Base(set, _items(set), set.update),
    _Base(dict, lambda value: dict(dict.items(value)), dict.update),
)
_OTHER_CONTAINERS: Final = (Counter, OrderedDict, defaultdict, deque)


class StoredClasses:
    """The classes of one plan.

    Args:
        classes: The classes that the plan names.
    """

    def __init__(self, classes: Iterable[UserClass]) -> None:
        self._kinds: dict[str, type[Any]] = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in _OWN_RECORDS}
        for known in classes:
            if not _is_ours(known.kind):
                # Over Spark Connect a class that was made inside a function arrives without the function's name.
                self._kinds[f"{known.kind.__module__}:{known.qualified}"] = known.kind
        self._names = {kind: name for name, kind in self._kinds.items()}

    def name_of(self, kind: type[Any]) -> str | None:
        """The name under which values of a class are stored; None where the plan does not name the class."""
        return self._names.get(kind)

    def find(self, name: object, *ways: Way) -> type[Any]:
        """The class of a stored name, whose values are taken apart in one of these ways; in any, if none is given.

        Raises:
            IncompatibleStateError: If the plan names no such class.
        """
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            raise refused(f"{name!r:.200}")
        if ways and way_of(kind) not in ways:
            raise refused(f"{name} by {' or '.join(way.name for way in ways)}")
        return kind


def _is_ours(kind: type[Any]) -> bool:
    return any(is_of_windrow(base.__module__) and base not in _OPEN_BASES for base in kind.__mro__)


def way_of(kind: type[Any]) -> Way:
    """Takes values of a class apart, and makes them again."""
    return _way_of(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances here: classes are hashable


@lru_cache(maxsize=1024)
def _way_of(kind: type[Any]) -> Way:
    if issubclass(kind, Enum):
        # The constructor of an Enum without members makes classes.
        return Way.MEMBER if kind.__members__ else Way.NONE
    if hasattr(kind, "__del__"):
        # Whoever writes the bytes would choose what it is called on.
        return Way.NONE
    if is_record(kind):
        return Way.FIELDS
    if issubclass(kind, msgspec.Struct):
        return Way.NONE
    base = next((base.kind for base in _BASES if issubclass(kind, base.kind)), object)
    if issubclass(kind, _OTHER_CONTAINERS) or not _pickles_as(kind, base):
        return Way.NONE
    if base is not object:
        return Way.PLAIN
    return Way.ATTRIBUTES if _is_made_empty(kind) else Way.NONE


def _is_made_empty(kind: type[Any]) -> bool:
    """Returns whether ``object`` makes instances of a class. One written in C may hold what no attribute shows."""
    make: Any = object.__new__
    try:
        make(kind)
    except TypeError:
        return False
    return True


def holds_flags(kind: type[Enum]) -> bool:
    """Returns whether values of an Enum may be members together, which are found without code of the user's."""
    return (
        issubclass(kind, Flag)
        and kind._missing_.__func__ is Flag._missing_.__func__  # type: ignore[attr-defined]  # it is a class method
        and type(kind).__call__ is EnumMeta.__call__
    )


def _pickles_as(kind: type[Any], base: type[Any]) -> bool:
    """Returns whether a class leaves it to its builtin base how its objects are pickled."""
    names = ["__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"]
    if base is not tuple:  # a named tuple has it from its fields
        names += ["__getnewargs__", "__getnewargs_ex__"]
    return all(
        found is getattr(base, name, None) or _is_generated(kind, found)
        for name in names
        for found in [getattr(kind, name, None)]
    )


def _is_generated(kind: type[Any], method: Any) -> bool:
    """Returns whether dataclasses or attrs wrote the method, which gets and sets slots then."""
    module = getattr(method, "__module__", None) or ""
    return (is_dataclass(kind) and module == "dataclasses") or (
        hasattr(kind, "__attrs_attrs__") and module.partition(".")[0] == "attr"
    )


def plain_base(kind: type[Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Gives the builtin value of an object, and makes an object of a builtin value; None stands for that of others."""
    base = next((found for found in _BASES if issubclass(kind, found.kind)), None)
    if base is None:
        return lambda value: None, lambda value: object.__new__(kind)

    def made(value: Any) -> Any:
        if type(value) is not base.kind:
            raise TypeError(f"{type(value).__name__} for a {base.kind.__name__}")
        make: Any = base.kind.__new__  # not that of the user's class
        if base.fill is None:
            return make(kind, value)
        empty = make(kind)
        base.fill(empty, value)
        return empty

    return base.plain, made


def refused(name: str) -> IncompatibleStateError:
    """The error for a class that stored bytes name and the plan does not."""
    return IncompatibleStateError(
        "stored state names a class that the plan does not know",
        given=name,
        expected="a class that the plan names, in annotations or in the code of its functions",
        hint="use the plan that wrote the checkpoint; a class that was renamed or moved needs a new checkpoint",
    )

"""Pickle for values of classes that are known: which names it writes, and what it gives for a name that it reads.

A class that is read may be called by what stands next in the bytes, with whatever arguments. Most known classes make
little of little. For those that do not, bytes get a function that looks at the arguments first, or are read again by a
reader that looks at each call.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, ClassVar, Final
from zoneinfo import ZoneInfo

from windrow.errors import IncompatibleStateError
from windrow_runtime.spark.classes import find_registered, registered_name

__all__ = ["KnownPickler", "UnknownClassError", "is_standard", "load_known", "refused"]

# Any throughout this module: pickled values are of any types.

_STANDARD: Final = {
    "collections": {"Counter", "OrderedDict", "deque", "defaultdict"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID", "SafeUUID"},
    "zoneinfo": {"ZoneInfo"},
    # As the factories of a defaultdict. What would make much of a small number, such as range, is not among them.
    "builtins": {"set", "frozenset", "complex", "int", "float", "str", "list", "dict", "tuple"},
}
_CALLABLE: Final = (type, FunctionType, BuiltinFunctionType, MethodType)
_ITSELF: Final = "class "
"""Stands before the name of a guarded class that is a value itself, such as the factory of a defaultdict."""


class UnknownClassError(Exception):
    """Names a class that the plan does not name."""


class KnownPickler(pickle.Pickler):
    """Refuses instances of classes that are not known.

    Args:
        file: Where to.
        check: Called with a class or a function; raises :class:`UnknownClassError`.
    """

    def __init__(self, file: io.BytesIO, check: Callable[[Any], None]) -> None:
        super().__init__(file, 5)
        self._check = check

    def reducer_override(self, obj: Any) -> Any:
        """Called for everything but builtins."""
        self._check(obj if isinstance(obj, _CALLABLE) else type(obj))
        if type(obj) is Fraction:
            return _fraction, (obj.numerator, obj.denominator)
        if type(obj) is ZoneInfo:
            obj.__reduce__()  # refuses a zone that was read from a file: its key would lead to another
            return _zone, (obj.key,)
        return NotImplemented

    def persistent_id(self, obj: Any) -> Any:
        """Gives classes by the name under which they are registered, and guards by that of their class."""
        if isinstance(obj, type):
            if _is_empty_enum(obj):
                raise UnknownClassError(f"{obj.__module__}.{obj.__qualname__}, which has no members")
            name = registered_name(obj)
            return f"{_ITSELF}{name}" if name in _GUARDS else name
        if obj is _fraction:
            return _FRACTION
        return _ZONE if obj is _zone else None


def is_standard(module: str, name: str) -> bool:
    """Whether that is a value type of the standard library that may be stored."""
    return name in _STANDARD.get(module, ())


def load_known(data: bytes, is_known: Callable[[str], bool]) -> Any:
    """What :class:`KnownPickler` wrote.

    Args:
        data: Bytes that ``pickle_check.OBJECTS`` has let pass.
        is_known: Called with ``module:name``.

    Raises:
        IncompatibleStateError: If the bytes name what is not known, or call a class with what it must not get. Damaged
            bytes also raise what pickle raises.
    """
    try:
        return _KnownUnpickler(io.BytesIO(data), is_known).load()
    except _LookCloserError:
        return _CarefulUnpickler(io.BytesIO(data), is_known).load()


class _LookCloserError(Exception):
    """The bytes name a class whose calls have to be looked at. Raised before any such call."""


def _find(name: str, is_known: Callable[[str], bool]) -> Any:
    """What bytes get for a name, however they say it."""
    if not is_known(name):
        raise refused(name)
    module, _, qualified = name.partition(":")
    # A module of the standard library may not have been imported yet.
    found = (
        getattr(import_module(module), qualified) if is_standard(module, qualified) else find_registered(name)
    )
    if _is_empty_enum(found):
        raise refused(name)
    return found


def _is_empty_enum(kind: type[Any]) -> bool:
    """No value is of such a class. To call it makes classes, and turns numbers of any kind into ints."""
    return issubclass(kind, Enum) and not kind.__members__


class _KnownUnpickler(pickle.Unpickler):
    """Refuses names that are not known."""

    def __init__(self, file: io.BytesIO, is_known: Callable[[str], bool]) -> None:
        super().__init__(file)
        self._is_known = is_known
        self._named: set[type[Any]] = set()

    def find_class(self, module: str, name: str) -> Any:
        """Called for names in the bytes, which windrow does not write."""
        return self.persistent_load(f"{module}:{name}")

    def persistent_load(self, pid: Any) -> Any:
        """Called for a class of the plan."""
        if not isinstance(pid, str):
            raise refused(str(type(pid)))
        guard = _GUARDS.get(pid)
        if guard is not None:
            return guard
        if pid.startswith(_ITSELF):
            raise _LookCloserError
        found = _find(pid, self._is_known)
        if found is int or found is Decimal:
            # int(Decimal("1e999999999")) computes for years.
            self._named.add(found)
            if len(self._named) == 2:
                raise _LookCloserError
        elif found is str:
            # Of a tuple that holds another twice, which does so too, and so on, the text fills the memory.
            raise _LookCloserError
        return found


class _CarefulUnpickler(pickle._Unpickler):
    """Looks at what is called. It is the reader that pickle has in Python, and many times slower than the other."""

    dispatch: ClassVar[dict[int, Callable[[pickle.Unpickler], None]]]

    def __init__(self, file: io.BytesIO, is_known: Callable[[str], bool]) -> None:
        super().__init__(file)
        self._is_known = is_known

    def find_class(self, module: str, name: str) -> Any:
        """As above."""
        return self.persistent_load(f"{module}:{name}")

    def persistent_load(self, pid: Any) -> Any:
        """As above; guarded classes are given as they are."""
        if not isinstance(pid, str):
            raise refused(str(type(pid)))
        return _find(pid.removeprefix(_ITSELF), self._is_known)


def _call(reader: Any) -> None:
    """Called for REDUCE."""
    called = reader.stack[-2]
    if called is int or called is str:
        raise refused(f"a call of {called.__name__}")
    if called is Fraction:
        reader.stack[-2] = _fraction
    elif called is ZoneInfo:
        reader.stack[-2] = _zone
    pickle._Unpickler.dispatch[pickle.REDUCE[0]](reader)


def _make(reader: Any) -> None:
    """Called for NEWOBJ: a class, and its arguments."""
    _refuse_to_make(reader.stack[-2])
    pickle._Unpickler.dispatch[pickle.NEWOBJ[0]](reader)


def _make_by_names(reader: Any) -> None:
    """Called for NEWOBJ_EX: a class, its arguments, and those that have names."""
    _refuse_to_make(reader.stack[-3])
    pickle._Unpickler.dispatch[pickle.NEWOBJ_EX[0]](reader)


def _refuse_to_make(kind: Any) -> None:
    if any(kind is guarded for guarded in (int, str, Fraction, ZoneInfo)):
        raise refused(f"a new {kind.__name__}")


def _change(code: bytes) -> Callable[[Any], None]:
    """For operations that call a method of what they change: a class may have been put in the method's place."""
    obey = pickle._Unpickler.dispatch[code[0]]

    def change(reader: Any) -> None:
        changed = reader.metastack[-1][-1] if code in _AFTER_MARK else reader.stack[-2]
        if isinstance(changed, type) or any(
            isinstance(getattr(changed, name, None), type) for name in _METHODS
        ):
            raise refused(f"a {type(changed).__name__} that is changed")
        obey(reader)

    return change


_AFTER_MARK: Final = (pickle.APPENDS, pickle.ADDITEMS)
_METHODS: Final = ("append", "extend", "add", "__setstate__")

_CarefulUnpickler.dispatch = pickle._Unpickler.dispatch | {
    pickle.REDUCE[0]: _call,
    pickle.NEWOBJ[0]: _make,
    pickle.NEWOBJ_EX[0]: _make_by_names,
    **{code[0]: _change(code) for code in (pickle.APPEND, pickle.BUILD, *_AFTER_MARK)},
}


def _fraction(numerator: Any, denominator: Any = None) -> Fraction:
    """A fraction as pickle writes it: two ints, or one text from Python 3.10.

    ``Fraction("1e999999999")`` would compute for years.
    """
    if type(numerator) is int and type(denominator) is int and denominator != 0:
        return Fraction(numerator, denominator)
    if type(numerator) is str and denominator is None:
        parts = numerator.removeprefix("-").split("/")
        if len(parts) <= 2 and all(map(str.isdecimal, parts)) and all(map(int, parts[1:])):
            return Fraction(numerator)
    raise refused(f"a Fraction of {type(numerator).__name__}, {type(denominator).__name__}")


def _zone(key: Any) -> ZoneInfo:
    """A time zone by its key. Keys that lead out of the database of time zones are refused by ``zoneinfo``."""
    try:
        return ZoneInfo(key)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise IncompatibleStateError(
            "stored state names a time zone that this machine does not have",
            given=f"{key!r:.100}: {type(error).__name__}",
            expected="a key of the database of time zones, such as 'Europe/Berlin'",
            hint="install the package tzdata on every machine",
        ) from error


_FRACTION: Final = "fractions:Fraction"
_ZONE: Final = "zoneinfo:ZoneInfo"
_GUARDS: Final[dict[Any, Callable[..., Any]]] = {_FRACTION: _fraction, _ZONE: _zone}
"""What bytes get for classes that make much of little, or that read files."""


def refused(name: str) -> IncompatibleStateError:
    """The error that tells of a name in stored bytes."""
    return IncompatibleStateError(
        "stored state names a class that the plan does not know",
        given=name,
        expected="classes that the plan names",
        hint="use the plan that wrote the checkpoint; if it did not write this, somebody else did",
    )

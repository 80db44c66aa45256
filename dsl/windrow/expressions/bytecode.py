"""Looks at the code of a function, and makes a copy of it that can be called with proxies in place of values.

A proxy alone could be deceived: by a function that reads what changes, asks ``is None`` or formats a text. So the code
must consist of instructions that read, compute, compare, decide and call; and each name that it uses must be a
constant, a record class, one of some built-in functions, or a function that is made of the same.
"""

from __future__ import annotations

import builtins
import dataclasses
import datetime
import dis
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType, MemberDescriptorType
from typing import Any, Final

from windrow.expressions.recorder import SCALARS, Made, Members, Recorder, RefusedError, Table, call, result_of
from windrow.expressions.tree import Expression, Record

__all__ = ["callable_with_proxies"]

# Any in this module: functions and constants of every type.

_PLAIN: Final = frozenset(
    {
        "BINARY_OP",
        "BINARY_SUBSCR",
        "BUILD_CONST_KEY_MAP",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_TUPLE",
        "CACHE",
        "CALL",
        "CALL_FUNCTION_EX",
        "CALL_KW",
        "COMPARE_OP",
        "CONTAINS_OP",
        "COPY",
        "COPY_FREE_VARS",
        "DICT_MERGE",
        "EXTENDED_ARG",
        "JUMP_FORWARD",
        "JUMP_IF_FALSE_OR_POP",
        "JUMP_IF_TRUE_OR_POP",
        "KW_NAMES",
        "LIST_EXTEND",
        "LIST_TO_TUPLE",
        "LOAD_ATTR",
        "LOAD_CONST",
        "LOAD_DEREF",
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_GLOBAL",
        "LOAD_METHOD",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_JUMP_FORWARD_IF_FALSE",
        "POP_JUMP_FORWARD_IF_TRUE",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_TRUE",
        "POP_TOP",
        "PRECALL",
        "PUSH_NULL",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
        "STORE_FAST",
        "STORE_FAST_LOAD_FAST",
        "STORE_FAST_STORE_FAST",
        "SWAP",
        "TO_BOOL",
        "UNARY_NEGATIVE",
        "UNARY_NOT",
        "UNARY_POSITIVE",
        "UNPACK_SEQUENCE",
    }
)
"""Instructions that change nothing but the function's own variables and new lists. Another Python may have others."""

_INTRINSICS: Final = frozenset({"INTRINSIC_LIST_TO_TUPLE", "INTRINSIC_UNARY_POSITIVE"})  # of CALL_INTRINSIC_1

_VARIADIC: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_AS_THEY_ARE: Final = (abs, min, max, datetime.UTC)  # they ask the proxies themselves

_CALLS: Final[Mapping[object, Callable[[object], object]]] = {
    int: lambda value: call("int", value, int),
    float: lambda value: call("float", value, float),
    len: lambda value: call("len", value, len),
}


def callable_with_proxies(function: FunctionType) -> Callable[[object], object]:
    """Makes the copy of a function of one argument; refuses one that does more than an expression."""
    code = function.__code__
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & _VARIADIC:
        raise RefusedError("takes other arguments than an element")
    return _copied(function, ())


def _copied(function: FunctionType, outer: tuple[FunctionType, ...]) -> FunctionType:
    if function in outer:
        raise RefusedError(f"calls {function.__name__}, which calls itself")
    code = function.__code__
    _check(code)
    names = _names(code)
    around = (*outer, function)
    known = {name: _stand_in(name, _global(function, name), around) for name in names}
    cells: tuple[CellType, ...] | None = None
    if function.__closure__ is not None:
        pairs = zip(code.co_freevars, function.__closure__, strict=True)
        cells = tuple([CellType(_stand_in(name, _content(name, cell), around)) for name, cell in pairs])
    constants = tuple([Members(each) if isinstance(each, frozenset) else each for each in code.co_consts])
    # Without built-in functions of its own, a function that is called finds none but those above.
    copy = FunctionType(
        code.replace(co_consts=constants), {**known, "__builtins__": {}}, function.__name__, None, cells
    )
    defaults = function.__defaults__ or ()
    copy.__defaults__ = tuple([_stand_in("a default", each, around) for each in defaults])
    copy.__kwdefaults__ = {
        name: _stand_in(name, each, around) for name, each in (function.__kwdefaults__ or {}).items()
    }
    return copy


def _global(function: FunctionType, name: str) -> object:
    found = function.__globals__.get(name, Ellipsis)
    return getattr(builtins, name, Ellipsis) if found is Ellipsis else found


def _content(name: str, cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        raise RefusedError(f"uses {name}, which has no value yet") from None


def _names(code: CodeType) -> list[str]:
    return [each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"]


def _stand_in(name: str, value: Any, around: tuple[FunctionType, ...]) -> object:
    """Returns what a function gets in place of the value of a variable around it; refuses other values."""
    kind = type(value)
    if kind in SCALARS or any(value is each for each in _AS_THEY_ARE):
        return value
    if kind in (set, frozenset):
        return Members(value)
    if kind is dict and {*map(type, value.values())} <= SCALARS:
        # A constant key gives the value itself, which must not do anything when it is used.
        return Table(value)
    if kind is FunctionType:
        return _copied(value, around)
    if isinstance(value, type):
        if value in _CALLS:
            return _CALLS[value]
        if value is datetime.datetime:
            return _DatetimeClass()
        if value is datetime.timezone:
            return _TimezoneClass()
        if _only_sets_fields(value):
            return _maker(value)
    elif value is len:
        return _CALLS[len]
    raise RefusedError(f"uses {name}")


class _DatetimeClass:
    """Stands for the class ``datetime``; functions may call its ``fromtimestamp(seconds, UTC)``."""

    __slots__ = ()

    def fromtimestamp(self, seconds: object, tz: object = None) -> object:
        """Records the call."""
        if type(seconds) is not Recorder or tz is not datetime.UTC:
            raise RefusedError("calls fromtimestamp for another time zone than UTC")
        return call("utc", seconds, None)


class _TimezoneClass:
    """Stands for the class ``timezone``; functions may take its ``utc``."""

    __slots__ = ()
    utc = datetime.UTC


def _only_sets_fields(kind: type[Any]) -> bool:
    """Whether calling a class does nothing but to make a record of its arguments."""
    if type(kind).__call__ is not type.__call__ or hasattr(kind, "__post_init__"):
        return False
    if issubclass(kind, tuple):
        is_own = kind.__getattribute__ is not tuple.__getattribute__
        return kind.__bases__ == (tuple,) and hasattr(kind, "_fields") and not is_own
    if _replaces(kind, "__getattribute__"):
        return False
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or _replaces(kind, "__new__"):
        return False
    # The decorator leaves no mark on a method that it made, but it compiles from a text.
    code = getattr(kind.__init__, "__code__", None)
    is_generated = code is not None and code.co_filename == "<string>" and "__create_fn__" in code.co_qualname
    fields_stay = all(field.init and _only_stores(kind, field.name) for field in dataclasses.fields(kind))
    return is_generated and fields_stay and (parameters.frozen or not _replaces(kind, "__setattr__"))


def _only_stores(kind: type[Any], name: str) -> bool:
    """Whether an attribute keeps what it is given: a property or another descriptor may do anything."""
    found = inspect.getattr_static(kind, name, None)
    return isinstance(found, MemberDescriptorType) or not (
        hasattr(type(found), "__set__") or hasattr(type(found), "__get__")
    )


def _replaces(kind: type[Any], method: str) -> bool:
    """Whether a class has another method than that of all objects."""
    return getattr(kind, method) is not getattr(object, method)


def _maker(kind: type[Any]) -> Callable[..., Made]:
    """Makes what stands for the constructor of a record class."""
    signature = inspect.signature(kind)
    is_tuple = issubclass(kind, tuple)
    names: Sequence[str] = (
        getattr(kind, "_fields", ()) if is_tuple else [each.name for each in dataclasses.fields(kind)]
    )

    def make(*args: object, **kwargs: object) -> Made:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if set(bound.arguments) != set(names):
            raise RefusedError(f"makes a {kind.__name__}, whose fields are not its arguments")
        values = {name: bound.arguments[name] for name in names}
        fields: list[tuple[str, Expression]] = [(name, result_of(value)) for name, value in values.items()]
        return Made(Record(kind, tuple(fields)), values)

    return make


def _check(code: CodeType) -> None:
    """Refuses code that is more than expressions and decisions."""
    if code.co_exceptiontable:
        raise RefusedError("handles errors")
    formats = has_text = False
    before: object = None
    for instruction in dis.get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        if name not in _PLAIN and not (name == "CALL_INTRINSIC_1" and instruction.argrepr in _INTRINSICS):
            raise RefusedError(_reason(name, argument))
        if name in ("LOAD_ATTR", "LOAD_METHOD") and argument.startswith("__"):
            raise RefusedError(f"reads {argument}")
        if name == "BINARY_OP" and instruction.argrepr.startswith("%"):
            # A number on the right asks nothing of a proxy.
            formats = formats or type(before) not in (int, float)
        if name != "EXTENDED_ARG":
            before = argument if "CONST" in name or name == "LOAD_SMALL_INT" else None
        # A docstring is among the code's constants too, and nobody loads it.
        has_text = has_text or ("CONST" in name and isinstance(argument, (str, bytes, tuple)))
    # A text does its own formatting, and never asks the proxy on its right.
    if formats and has_text:
        raise RefusedError("may format a text")


def _reason(name: str, argument: object) -> str:
    if "NONE" in name or name == "IS_OP":
        return "asks `is`"
    if name in ("FOR_ITER", "GET_ITER", "JUMP_BACKWARD"):
        return "repeats something"
    if "FORMAT" in name or name == "BUILD_STRING":
        return "makes a text"
    if "BUILD" in name or name.startswith(("LIST", "SET", "DICT", "MAP")):
        return "makes a collection"
    if "STORE" in name or "DELETE" in name:
        return "changes something"
    if "GLOBAL" in name or name == "LOAD_NAME":
        return f"uses {argument}"
    return f"does more than take fields and compute ({name})"

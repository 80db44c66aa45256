"""Checks the code of a function, and copies it, so that the copy can be called with proxies in place of values.

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
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from windrow.expressions.built_in import CALLS
from windrow.expressions.node import Expression
from windrow.expressions.recorder import SCALARS, Made, Members, RefusedError, Table, call, is_recorder, result_of
from windrow.expressions.surroundings import Surroundings
from windrow.expressions.tree import Record
from windrow.facts.code import facts
from windrow.plan.records import hook_of

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

_FILE: Final = "<copy by windrow>"
_AS_THEY_ARE: Final = (abs, min, max, datetime.UTC)  # they ask the proxies themselves

_TEXT_MAKERS: Final = frozenset({"hex", "to_bytes", "tzname"})
_MAKES_TUPLES: Final = frozenset(
    {"BUILD_LIST", "BUILD_TUPLE", "INTRINSIC_LIST_TO_TUPLE", "LIST_EXTEND", "LIST_TO_TUPLE"}
)
_LONGEST: Final = 200_000  # bytes of code that are looked at

_CALLS: Final[Mapping[object, Callable[[object], object]]] = {
    row.python: partial(call, name) for name, row in CALLS.items()
}


def callable_with_proxies(function: FunctionType, around: Surroundings) -> Callable[..., object]:
    """Makes the copy of a function; refuses one that does more than an expression.

    Args:
        function: The function.
        around: Keeps the values of variables that it reads.
    """
    if facts(function).takes_more:
        raise RefusedError("takes arguments by name or of any number")
    return _Copies(function, around).copied(function)


class _Copies:
    """Copies a function and the functions that it calls, each once."""

    def __init__(self, root: FunctionType, around: Surroundings) -> None:
        self._root = root
        self._around = around
        self._copies: dict[FunctionType, Callable[..., object]] = {}
        self._begun: set[FunctionType] = set()

    def copied(self, function: FunctionType) -> Callable[..., object]:
        copy = self._copies.get(function)
        if copy is None:
            if function in self._begun:
                raise RefusedError(f"calls {function.__name__}, which calls itself")
            self._begun.add(function)
            copy = self._copies[function] = self._copy(function)
        return copy

    def _copy(self, function: FunctionType) -> Callable[..., object]:
        around = self._around
        code: CodeType = around.read(function, lambda owner: owner.__code__)
        instructions = _instructions(code)
        _check(code, instructions)
        names = {each.argval: None for each in instructions if each.opname == "LOAD_GLOBAL"}
        values = {name: around.read(function, partial(_global, name=name)) for name in names}
        contents = {}
        for index, name in enumerate(code.co_freevars if function.__closure__ is not None else ()):
            contents[name] = around.read(function, partial(_content, index=index))
            if contents[name] is Ellipsis:
                raise RefusedError(f"uses {name}, which has no value yet")
        around.add_code(_constants(instructions))
        formats, has_texts = _formats(instructions, {**values, **contents}), _has_texts(code, instructions)
        if formats and has_texts:
            raise RefusedError("may format a text")
        around.formats, around.has_texts = around.formats or formats, around.has_texts or has_texts
        around.has_tuples = around.has_tuples or _has_tuples(code, instructions, is_helper=function is not self._root)
        stand_ins = {name: self._stand_in(name, value) for name, value in values.items()}
        cells = tuple([CellType(self._stand_in(name, value)) for name, value in contents.items()])
        constants = tuple([Members(each) if isinstance(each, frozenset) else each for each in code.co_consts])
        # Without built-in functions of its own, a function that is called finds none but those above. The copy is of no
        # file: debuggers would stop in it, with proxies for values, and coverage would count its lines as run.
        copy = FunctionType(
            code.replace(co_consts=constants, co_filename=_FILE),
            {**stand_ins, "__builtins__": {}},
            function.__name__,
            None,
            None if function.__closure__ is None else cells,
        )
        positional = code.co_varnames[: code.co_argcount]
        defaults: tuple[object, ...] = around.read(function, lambda owner: owner.__defaults__) or ()
        named = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        copy.__defaults__ = tuple([self._stand_in(name, each, "a default") for name, each in named])
        by_name: dict[str, object] = around.read(function, lambda owner: owner.__kwdefaults__) or {}
        copy.__kwdefaults__ = {name: self._stand_in(name, each) for name, each in by_name.items()}
        if function is self._root:
            return copy

        def counted(*args: object, **kwargs: object) -> object:
            around.budget.spend()
            return copy(*args, **kwargs)

        return counted

    def _stand_in(self, name: str, value: Any, what: str | None = None) -> object:
        """Returns what a function gets in place of the value of a variable around it; refuses other values."""
        around, class_ = self._around, type(value)
        if class_ in SCALARS or any(value is each for each in _AS_THEY_ARE):
            around.name(value, name)
            return value
        if class_ in (set, frozenset):
            return Members(value, name, around.note)
        if class_ is dict and around.read(self._root, lambda _: {*map(type, value.values())} <= SCALARS):
            # A constant key gives the value itself, which must not do anything when it is used.
            around.has_texts = around.has_texts or str in {*map(type, value.values())}
            return Table(value, name, around.note)
        if class_ is FunctionType:
            return self.copied(value)
        if isinstance(value, type):
            if value in _CALLS:
                return _CALLS[value]
            if value is datetime.datetime:
                return _DatetimeClass()
            if value is datetime.timezone:
                return _TimezoneClass()
            if around.read(self._root, lambda _: hook_of(value)) is None and _takes_fields(value):
                return _maker(value)
        elif value is len:
            return _CALLS[len]
        raise RefusedError(f"uses {what or name}")


def _global(function: FunctionType, name: str) -> object:
    value = function.__globals__.get(name, Ellipsis)
    return getattr(builtins, name, Ellipsis) if value is Ellipsis else value


def _content(function: FunctionType, index: int) -> object:
    """The value of a variable of a function around; an ellipsis if it has none yet."""
    assert function.__closure__ is not None, "the caller asked"
    try:
        return function.__closure__[index].cell_contents
    except ValueError:
        return Ellipsis


def _instructions(code: CodeType) -> list[dis.Instruction]:
    """Returns the instructions of a code object, without caches, prefixes and no-ops."""
    if len(code.co_code) > _LONGEST:
        raise RefusedError(f"has more than {_LONGEST} bytes of code")
    return [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]


class _DatetimeClass:
    """Stands for the class ``datetime``; functions may call its ``fromtimestamp(seconds, UTC)``."""

    __slots__ = ()

    def fromtimestamp(self, seconds: object, tz: object = None) -> object:
        """Records the call."""
        if not is_recorder(seconds) or tz is not datetime.UTC:
            raise RefusedError("calls fromtimestamp for another time zone than UTC")
        return call("utc", seconds)


class _TimezoneClass:
    """Stands for the class ``timezone``; functions may take its ``utc``."""

    __slots__ = ()
    utc = datetime.UTC


def _takes_fields(class_: type[Any]) -> bool:
    """Whether a class is one of those whose records a function may make of columns."""
    return class_ is not tuple and (issubclass(class_, tuple) or dataclasses.is_dataclass(class_))


def _maker(class_: type[Any]) -> Callable[..., Made]:
    """Makes what stands for the constructor of a record class."""
    signature = inspect.signature(class_)
    is_tuple = issubclass(class_, tuple)
    names: Sequence[str] = (
        getattr(class_, "_fields", ()) if is_tuple else [each.name for each in dataclasses.fields(class_)]
    )

    def make(*args: object, **kwargs: object) -> Made:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if set(bound.arguments) != set(names):
            raise RefusedError(f"makes a {class_.__name__}, whose fields are not its arguments")
        values = {name: bound.arguments[name] for name in names}
        fields: list[tuple[str, Expression]] = [(name, result_of(value)) for name, value in values.items()]
        return Made(Record(class_, tuple(fields)), values)

    return make


def _check(code: CodeType, instructions: Sequence[dis.Instruction]) -> None:
    """Refuses code that is more than expressions and decisions."""
    if code.co_exceptiontable:
        # So does a comprehension in some versions of Python.
        raise RefusedError("repeats something" if _repeats(instructions) else "handles errors")
    for instruction in instructions:
        name, argument = instruction.opname, instruction.argval
        if name not in _PLAIN and not (name == "CALL_INTRINSIC_1" and instruction.argrepr in _INTRINSICS):
            raise RefusedError(_reason(name, argument))
        if name in ("LOAD_ATTR", "LOAD_METHOD") and argument.startswith("__"):
            raise RefusedError(f"reads {argument}")


def _repeats(instructions: Sequence[dis.Instruction]) -> bool:
    return any(each.opname == "FOR_ITER" for each in instructions)


def _constants(instructions: Sequence[dis.Instruction]) -> list[object]:
    """The constants that a code loads; a docstring is among those it has, and nobody loads it."""
    return [each.argval for each in instructions if _is_constant(each)]


def _is_constant(instruction: dis.Instruction) -> bool:
    return instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")


def _has_texts(code: CodeType, instructions: Sequence[dis.Instruction]) -> bool:
    """Whether a code has texts among its constants, or makes some of numbers or time zones."""
    if any(isinstance(each, (str, bytes, tuple)) for each in _constants(instructions)):
        return True
    return not _TEXT_MAKERS.isdisjoint(code.co_names)


def _formats(instructions: Sequence[dis.Instruction], variables: Mapping[str, object]) -> bool:
    """Whether a code may format: a text does so itself, and need not ask the proxy on its right."""
    before: object = None
    for instruction in instructions:
        # A number on the right asks nothing of a proxy; where branches meet, another value may be there.
        if instruction.opname == "BINARY_OP" and instruction.argrepr.startswith("%"):
            if type(before) not in (int, float) or instruction.is_jump_target:
                return True
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            before = variables.get(instruction.argval)
            continue
        before = instruction.argval if _is_constant(instruction) else None
    return False


def _has_tuples(code: CodeType, instructions: Sequence[dis.Instruction], *, is_helper: bool) -> bool:
    """Whether a code makes tuples or lists that may be compared, or looked into."""
    if code.co_flags & inspect.CO_VARARGS or any(_holds_nan(each) for each in _constants(instructions)):
        return True
    harmless = {"UNPACK_SEQUENCE", "CALL_FUNCTION_EX"}
    if not is_helper:
        harmless.add("RETURN_VALUE")
    steps = [each.argrepr if each.opname == "CALL_INTRINSIC_1" else each.opname for each in instructions]
    return any(name in _MAKES_TUPLES and following not in harmless for name, following in pairwise(steps))


def _holds_nan(constant: object) -> bool:
    is_nan = isinstance(constant, float) and math.isnan(constant)
    return is_nan or (isinstance(constant, tuple) and any(map(_holds_nan, constant)))


def _reason(name: str, argument: object) -> str:
    if "NONE" in name or name == "IS_OP":
        return "asks `is`"
    if name in ("FOR_ITER", "GET_ITER", "JUMP_BACKWARD"):
        return "repeats something"
    if "FORMAT" in name or name == "BUILD_STRING":
        return "makes a text"
    if name in ("LOAD_CLOSURE", "MAKE_CELL", "MAKE_FUNCTION"):
        return "has a function within, such as a comprehension"
    if "SLICE" in name:
        return "takes a slice"
    if "BUILD" in name or name.startswith(("LIST", "SET", "DICT", "MAP")):
        return "makes a collection"
    if "STORE" in name or "DELETE" in name:
        return "changes something"
    if "GLOBAL" in name or name == "LOAD_NAME":
        return f"uses {argument}"
    return f"does more than take fields and compute ({name})"

"""Warns of functions that keep something on ``self``, or in variables around them, from one call to the next.

On Spark each batch begins with new copies of the functions, so what calls have left is gone, without an error. The code
of functions is read; where it does not say for sure there is no warning.
"""

from __future__ import annotations

import dis
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from windrow.aggregates.combined import Combined
from windrow.errors import warn
from windrow.functions import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from windrow.functions.plain import Applied, AppliedAll
from windrow.functions.wrapper import unwrapped
from windrow.plan.closures import closure_of
from windrow.plan.nodes import MapAsyncNode, SinkNode
from windrow.plan.own_parts import parts_of
from windrow.plan.steps import Step
from windrow.triggers import Trigger

__all__ = ["warn_of_what_calls_keep"]

# Any in this module: functions of every type.

_ONCE: Final = frozenset({"open", "close", "open_async", "close_async"})
_CONTAINERS: Final = (list, set, dict, deque, defaultdict, Counter, OrderedDict, bytearray)
_ADDING: Final = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "add", "update"})

_HINTS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (AggregateFunction, "keep it in the accumulator"),
    (Trigger, 'keep it in state of the window: context.get_state(ValueStateDescriptor("name", int))'),
    (
        (ProcessWindowFunction, ProcessAllWindowFunction),
        'keep it in state: context.global_state.get_state(ValueStateDescriptor("name", int))',
    ),
    (
        (KeyedProcessFunction, KeyedCoProcessFunction, KeyedBroadcastProcessFunction),
        'keep it in state: context.get_state(ValueStateDescriptor("name", int))',
    ),
)
_ELSE: Final = (
    "keep it in state: key_by(...).process(...) with a KeyedProcessFunction, and there "
    'context.get_state(ValueStateDescriptor("name", int)); context.metrics.counter("name") of open only counts'
)


def warn_of_what_calls_keep(steps: Iterable[Step]) -> None:
    """Warn of each attribute or variable in which calls of a step's functions keep something for later calls."""
    for step in steps:
        # Sinks run where their batches are written, and asynchronous calls share attributes on purpose.
        if isinstance(step.node, (SinkNode, MapAsyncNode)):
            continue
        for part in parts_of(step.node):
            for name, kept in _kept_by(part):
                hint = next((text for kinds, text in _HINTS if isinstance(part, kinds)), _ELSE)
                warn(
                    f"{name} keeps {kept.text} from one call to the next, and it is gone at the next batch or key",
                    given=f"line {kept.line} of {kept.file}",
                    where=step.where,
                    hint=hint,
                    location=step.node.location,
                )


class _Kept(NamedTuple):
    text: str  # as the code names it
    file: str
    line: int | None


def _kept_by(part: Any) -> Iterator[tuple[str, _Kept]]:
    """Yields what the calls of a part of a step keep, each with the name of the function that does."""
    part = unwrapped(part)
    if isinstance(part, functools.partial):
        yield from _kept_by(part.func)
    elif isinstance(part, (Applied, AppliedAll)):
        yield from _kept_by(part.function)
    elif isinstance(part, Combined):
        for _, member in part.members:
            yield from _kept_by(member)
    elif isinstance(part, MethodType):
        if isinstance(part.__func__, FunctionType) and not isinstance(part.__self__, type):
            yield from _kept_by_methods(part.__self__, [part.__name__])
    elif isinstance(part, FunctionType):
        yield from ((part.__qualname__, kept) for kept in _kept_around(part))
    elif part is not None and not isinstance(part, type) and _is_users(type(part).__module__):
        yield from _kept_by_methods(part, _called_by_windrow(type(part)))


def _is_users(module: str) -> bool:
    return module.partition(".")[0] not in {"builtins", "windrow", "windrow_runtime"}


def _called_by_windrow(kind: type) -> Iterator[str]:
    """Yields the names of the methods of a user's class that windrow calls for elements and timers."""
    bases = [vars(base) for base in kind.__mro__ if not _is_users(base.__module__)]
    for name in dict.fromkeys(name for base in kind.__mro__ if _is_users(base.__module__) for name in vars(base)):
        is_special = name.startswith("__") and name != "__call__"
        if name not in _ONCE and not is_special and (name == "__call__" or any(name in base for base in bases)):
            yield name


def _kept_by_methods(owner: object, names: Iterable[str]) -> Iterator[tuple[str, _Kept]]:
    """Yields what methods keep on their object, those of its class that they call among them."""
    kind = type(owner)
    uses: dict[str, list[_Use]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        method = getattr_static(kind, name, None)
        if name in uses or name in _ONCE or not isinstance(method, FunctionType) or not _is_users(method.__module__):
            continue
        code = method.__code__
        self_name = code.co_varnames[0] if code.co_argcount else ""
        uses[name] = list(_uses(code, self_name)) if self_name and not _sets_variable(code, self_name) else []
        waiting += code.co_names
    for name, of_method in uses.items():
        method = getattr_static(kind, name)
        callers = [other for other in uses if other != name and name in getattr_static(kind, other).__code__.co_names]
        for variable in dict.fromkeys(use.name for use in of_method):
            # A caller that sets the attribute first has it for one call only.
            if any(_sets_first(uses[caller], variable) for caller in callers):
                continue
            if (use := _kept(of_method, variable, getattr_static(owner, variable, None))) is not None:
                kept = _Kept(f"self.{variable}", method.__code__.co_filename, use.line)
                yield f"{kind.__name__}.{name}", kept
        yield from ((f"{kind.__name__}.{name}", kept) for kept in _kept_around(method))


def _kept_around(function: FunctionType) -> Iterator[_Kept]:
    """Yields what a function keeps in variables of the functions around it, and of its module."""
    uses = list(_uses(function.__code__, None))
    defaults = _defaults_of(function)
    uses += [use for name in defaults for use in _uses(function.__code__, None, name)]
    values: Mapping[str, object] = {**function.__globals__, **closure_of(function), **defaults}
    for variable in dict.fromkeys(use.name for use in uses):
        if (use := _kept(uses, variable, values.get(variable))) is not None:
            yield _Kept(variable, function.__code__.co_filename, use.line)


def _defaults_of(function: FunctionType) -> dict[str, object]:
    """The collections that are defaults of parameters, which no call of windrow gives: all calls share them."""
    code = function.__code__
    positional = function.__defaults__ or ()
    named = dict(zip(code.co_varnames[code.co_argcount - len(positional) : code.co_argcount], positional, strict=True))
    shared = {**named, **(function.__kwdefaults__ or {})}
    return {
        name: value for name, value in shared.items() if type(value) in _CONTAINERS and not _sets_variable(code, name)
    }


def _sets_variable(code: CodeType, name: str) -> bool:
    return any(
        step.opname.startswith(("STORE_FAST", "STORE_DEREF"))
        and name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(code)
    )


class _Does(Enum):
    """What code does with a variable, or with an attribute of ``self``."""

    READS = "reads"
    ASKS = "asks whether it is there"
    SETS = "sets to a value that no call has given"
    TAKES = "sets to what a call has given or computed"
    CHANGES = "sets to a value that comes from the one before"
    ADDS = "adds to the collection"


class _Use(NamedTuple):
    name: str
    does: _Does
    line: int | None


def _sets_first(uses: Iterable[_Use], name: str) -> bool:
    first = next((use.does for use in uses if use.name == name), None)
    return first in (_Does.SETS, _Does.TAKES)


def _kept(uses: Iterable[_Use], name: str, value: object) -> _Use | None:
    """The use by which a call certainly keeps something for later ones; ``value`` is what the plan was given."""
    mine = [use for use in uses if use.name == name]
    if _sets_first(mine, name):
        return None
    was_read = False
    for use in mine:
        adds = use.does is _Does.ADDS and type(value) in _CONTAINERS
        if adds or use.does is _Does.CHANGES or (use.does is _Does.TAKES and was_read):
            return use
        was_read = was_read or use.does is _Does.READS
    return None


_FILLING: Final = frozenset(["CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME", "TO_BOOL"])
_LOOKUPS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ENDS: Final = ("STORE_", "POP_TOP", "RETURN", "POP_JUMP", "JUMP", "FOR_ITER", "YIELD")


def _uses(code: CodeType, owner: str | None, parameter: str | None = None) -> Iterator[_Use]:
    """Yields what code does with attributes of ``owner``, or without one with variables around it, in its order.

    With ``parameter`` it is what the code does with that parameter.
    """
    steps = [each for each in dis.get_instructions(code) if each.opname not in _FILLING]
    line: int | None = None
    read: list[str] = []  # what the statement has read so far
    takes = False  # whether the statement has read a variable of the call
    for place, step in enumerate(steps):
        line = line if step.positions is None else step.positions.lineno
        before, after = steps[max(place - 1, 0)], steps[min(place + 1, len(steps) - 1)]
        name = _read_by(step, before, steps[max(place - 2, 0)], code, owner, parameter)
        if name is not None:
            yield _Use(name, _of_read(step, after, steps[min(place + 2, len(steps) - 1)]), line)
            read.append(name)
        elif step.opname == "STORE_SUBSCR":
            twice = [each for each in read if before.opname == "SWAP" or read.count(each) > 1]
            # Under a condition it may be a cache: each batch fills its own.
            is_conditional = any("JUMP" in one.opname or "EXC" in one.opname for one in steps[:place])
            always = read and "LOAD_FAST" in before.opname and not is_conditional
            if twice or (always and steps[place - 2].argval == read[-1]):
                yield _Use(twice[0] if twice else read[-1], _Does.ADDS, line)
        else:
            name = None if parameter is not None else _set_by(step, before, code, owner)
            if name is not None and (name in read or before.opname != "SWAP"):
                does = _Does.CHANGES if name in read else _Does.TAKES if takes else _Does.SETS
                yield _Use(name, does, line)
            elif "LOAD_FAST" in step.opname and step.argval != owner:
                takes = takes or step.argval != (owner, owner)
            elif isinstance(step.argval, CodeType) and {owner, parameter} & set(step.argval.co_freevars):
                yield from _uses(step.argval, owner, parameter)
        if step.opname.startswith(_ENDS):
            read, takes = [], False


def _loads(step: dis.Instruction, owner: str) -> bool:
    last = step.argval[-1] if isinstance(step.argval, tuple) and step.argval else step.argval
    return step.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST")) and last == owner


def _read_by(
    step: dis.Instruction,
    before: dis.Instruction,
    earlier: dis.Instruction,
    code: CodeType,
    owner: str | None,
    parameter: str | None,
) -> str | None:
    if parameter is not None:
        return parameter if _loads(step, parameter) else None
    if owner is None:
        is_around = step.opname == "LOAD_GLOBAL" or (step.opname == "LOAD_DEREF" and step.argval in code.co_freevars)
        return str(step.argval) if is_around else None
    is_own = _loads(before, owner) or (before.opname == "COPY" and _loads(earlier, owner))
    named = step.opname in _LOOKUPS or (step.opname == "LOAD_CONST" and isinstance(step.argval, str))
    return str(step.argval) if is_own and named else None


def _of_read(step: dis.Instruction, after: dis.Instruction, following: dis.Instruction) -> _Does:
    if step.opname == "LOAD_CONST" or after.opname.startswith("POP_JUMP") or following.opname == "IS_OP":
        return _Does.ASKS  # LOAD_CONST: the name in hasattr(self, "name")
    if after.opname in _LOOKUPS and after.argval == "clear":
        return _Does.SETS
    return _Does.ADDS if after.opname in _LOOKUPS and after.argval in _ADDING else _Does.READS


def _set_by(step: dis.Instruction, before: dis.Instruction, code: CodeType, owner: str | None) -> str | None:
    if owner is None:
        is_around = step.opname == "STORE_GLOBAL" or (step.opname == "STORE_DEREF" and step.argval in code.co_freevars)
        return str(step.argval) if is_around else None
    is_own = step.opname == "STORE_ATTR" and (before.opname == "SWAP" or _loads(before, owner))
    return str(step.argval) if is_own else None

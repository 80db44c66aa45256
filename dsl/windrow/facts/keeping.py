"""Finds the attributes and variables in which calls of a function certainly keep something for later calls."""

from __future__ import annotations

import dis
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from inspect import getattr_static
from types import CodeType, FunctionType
from typing import Final, NamedTuple

from windrow.facts.code import ONCE, closure_of
from windrow.facts.packages import is_library

_CONTAINERS: Final = (list, set, dict, deque, defaultdict, Counter, OrderedDict, bytearray)
_ADDING: Final = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "add", "update"})


class Kept(NamedTuple):
    """An attribute or a variable that calls keep, and where the code does so."""

    text: str  # as the code names it
    file: str
    line: int | None


def kept_by_methods(owner: object, names: Iterable[str]) -> Iterator[tuple[str, Kept]]:
    """Yields the attributes that methods of an object, and those that they call, set on it for later calls."""
    class_ = type(owner)
    uses: dict[str, list[_Use]] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        method = getattr_static(class_, name, None)
        if name in uses or name in ONCE or not isinstance(method, FunctionType) or is_library(method.__module__):
            continue
        code = method.__code__
        self_name = code.co_varnames[0] if code.co_argcount else ""
        uses[name] = list(_uses(code, self_name)) if self_name and not _sets_variable(code, self_name) else []
        waiting += code.co_names
    for name, of_method in uses.items():
        method = getattr_static(class_, name)
        callers = [other for other in uses if other != name and name in getattr_static(class_, other).__code__.co_names]
        for variable in dict.fromkeys(use.name for use in of_method):
            # A caller that sets the attribute first has it for one call only.
            if any(_sets_first(uses[caller], variable) for caller in callers):
                continue
            if (use := _kept(of_method, variable, getattr_static(owner, variable, None))) is not None:
                kept = Kept(f"self.{variable}", method.__code__.co_filename, use.line)
                yield f"{class_.__name__}.{name}", kept
        yield from ((f"{class_.__name__}.{name}", kept) for kept in kept_around(method))


def kept_around(function: FunctionType) -> Iterator[Kept]:
    """Yields what a function keeps in variables of the functions around it, and of its module."""
    uses = list(_uses(function.__code__, None))
    defaults = _defaults_of(function)
    uses += [use for name in defaults for use in _uses(function.__code__, None, name)]
    values: Mapping[str, object] = {**function.__globals__, **closure_of(function), **defaults}
    for variable in dict.fromkeys(use.name for use in uses):
        if (use := _kept(uses, variable, values.get(variable))) is not None:
            yield Kept(variable, function.__code__.co_filename, use.line)


def _defaults_of(function: FunctionType) -> dict[str, object]:
    """The collections that are defaults of parameters: windrow passes no such parameter, so all calls share them."""
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
    """One use of a variable, or of an attribute of ``self``, by code."""

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
    uses_of_name = [use for use in uses if use.name == name]
    if _sets_first(uses_of_name, name):
        return None
    was_read = False
    for use in uses_of_name:
        adds = use.does is _Does.ADDS and type(value) in _CONTAINERS
        if adds or use.does is _Does.CHANGES or (use.does is _Does.TAKES and was_read):
            return use
        was_read = was_read or use.does is _Does.READS
    return None


_FILLING: Final = frozenset(["CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME", "TO_BOOL"])
_LOOKUPS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ENDS: Final = ("STORE_", "POP_TOP", "RETURN", "POP_JUMP", "JUMP", "FOR_ITER", "YIELD")


@lru_cache(maxsize=2_000)
def _uses(code: CodeType, owner: str | None, parameter: str | None = None) -> tuple[_Use, ...]:
    """What code does, in order, with the attributes of ``owner``, or without an owner with variables around it.

    With ``parameter`` it is what the code does with that parameter.
    """
    return tuple(_read_uses(code, owner, parameter))


def _read_uses(code: CodeType, owner: str | None, parameter: str | None) -> Iterator[_Use]:
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

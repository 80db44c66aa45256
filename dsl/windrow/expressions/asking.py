"""Rewrites code so that it asks its values what Python would not ask them: whether they are None, and for their text.

``value is None`` looks at an address, and an f-string joins texts by itself: a proxy in place of the value would not be
told. In the copy both are operators, which ask an object of ours. Only the types of what functions give are found with
such a copy.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

__all__ = ["asking_proxies"]

_AFTER_NONE: Final = {
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_FORWARD_IF_TRUE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_FORWARD_IF_FALSE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_FALSE",
}
"""What jumps in place of a jump by whether a value is None, once that is known."""

_TEXT_OF_ONE: Final = frozenset({"CONVERT_VALUE", "FORMAT_SIMPLE"})
_WITH_SPEC: Final = 4  # of the argument of FORMAT_VALUE
_HAS_TEXT: Final = frozenset({*_TEXT_OF_ONE, "BUILD_STRING", "FORMAT_VALUE", "FORMAT_WITH_SPEC"})


def _rooms(code: CodeType) -> dict[str, int]:
    """How many units of code stand behind instructions for Python's own use, by the names of these."""
    instructions = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    ends = [*[each.offset for each in instructions[1:]], len(code.co_code)]
    return {each.opname: (end - each.offset) // 2 - 1 for each, end in zip(instructions, ends, strict=True)}


def _sample(a: Any, b: Any) -> Any:
    """Has the instructions that new code has: what this version of Python makes of them is read from it."""
    return (a @ b, a in b) if a else b if not a else 1


_SAMPLE: Final = _rooms(_sample.__code__)
_MATMUL: Final = next(each.arg or 0 for each in dis.get_instructions(_sample) if each.argrepr == "@")


@dataclass(slots=True, eq=False)
class _Step:
    """An instruction, which may jump to another one."""

    name: str
    argument: int = 0
    target: _Step | None = None
    is_none: bool = False  # whether it loads None
    room: int = 0  # how many units of code stand behind it for Python's own use


def asking_proxies(code: CodeType, asked: object, same: object) -> CodeType:
    """Returns code that asks ``value in asked`` whether it is None, and ``value @ asked`` for its text.

    It asks ``(value, other) in same`` whether both are one object.

    Code that goes back in itself, or handles errors, is left as it is.
    """
    instructions = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "EXTENDED_ARG")]
    names = {each.opname for each in instructions}
    if not names & {*_AFTER_NONE, *_HAS_TEXT, "IS_OP"} or code.co_exceptiontable or "JUMP_BACKWARD" in names:
        return code
    steps = _steps(instructions, len(code.co_consts))
    rooms = {**_SAMPLE, **_rooms(code)}
    for step in steps:
        step.room = rooms.get(step.name, 0)
    return code.replace(
        co_code=_assembled(steps), co_consts=(*code.co_consts, asked, same), co_stacksize=code.co_stacksize + 1
    )


def _steps(instructions: Sequence[dis.Instruction], asked: int) -> list[_Step]:
    """The steps of the new code."""
    first: list[_Step] = []  # of each instruction
    steps: list[_Step] = []
    jumps: list[tuple[_Step, int]] = []
    for each in instructions:
        own_steps = list(_made_of(each, steps, asked))
        first.append(own_steps[0])
        steps += own_steps
        if each.opcode in dis.hasjrel:
            jumps.append((own_steps[-1], each.argval))
    for step, offset in jumps:
        step.target = next(target for target, each in zip(first, instructions, strict=True) if each.offset >= offset)
    return steps


def _made_of(each: dis.Instruction, before: Sequence[_Step], asked: int) -> Iterator[_Step]:
    """The steps in place of one instruction."""
    name, argument = each.opname, each.arg or 0
    asks = [_Step("LOAD_CONST", asked), _Step("BINARY_OP", _MATMUL)]
    if name in _AFTER_NONE:
        yield _Step("LOAD_CONST", asked)
        yield _Step("CONTAINS_OP", 0)
        yield _Step(_AFTER_NONE[name])
    elif name == "IS_OP" and before[-1].is_none and not each.is_jump_target:
        before[-1].argument = asked
        yield _Step("CONTAINS_OP", argument)
    elif name == "IS_OP":
        yield _Step("BUILD_TUPLE", 2)
        yield _Step("LOAD_CONST", asked + 1)
        yield _Step("CONTAINS_OP", argument)
    elif name in _TEXT_OF_ONE or (name == "FORMAT_VALUE" and not argument & _WITH_SPEC):
        yield from asks
    elif name in _HAS_TEXT:
        yield _Step("BUILD_TUPLE", argument if name == "BUILD_STRING" else 2)
        yield from asks
    else:
        yield _Step(name, argument, is_none=name == "LOAD_CONST" and each.argval is None)


def _assembled(steps: Sequence[_Step]) -> bytes:
    sizes = [1 + step.room for step in steps]
    while True:
        ends = [sum(sizes[: place + 1]) for place in range(len(steps))]
        begins = {id(step): end - size for step, end, size in zip(steps, ends, sizes, strict=True)}
        for step, end in zip(steps, ends, strict=True):
            if step.target is not None:
                step.argument = begins[id(step.target)] - end
        needed = [max(1, (step.argument.bit_length() + 7) // 8) + step.room for step in steps]
        if all(need <= size for need, size in zip(needed, sizes, strict=True)):
            return b"".join(map(_encoded, steps, sizes))
        sizes = [max(pair) for pair in zip(needed, sizes, strict=True)]


def _encoded(step: _Step, size: int) -> bytes:
    *extended, last = step.argument.to_bytes(size - step.room, "big")
    units = [(dis.opmap["EXTENDED_ARG"], each) for each in extended]
    units += [(dis.opmap[step.name], last), *[(dis.opmap["CACHE"], 0)] * step.room]
    return bytes([each for unit in units for each in unit])

"""Reads the code of a function: its names, constants, parameters and variables, and what it does with them."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Final

from windrow.facts.packages import is_library

_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_REST: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_NO_PLAIN_RESULT: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

ONCE: Final = frozenset({"open", "close", "open_async", "close_async"})
"""The methods of functions that are called once; attributes that they set are the same for every batch and key."""

_BACK_DOORS: Final = frozenset({"locals", "vars", "eval", "exec", "_getframe", "currentframe", "__self__"})
"""The names by which code can reach the variables and objects of other calls."""

_LOOKUPS: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_OF_CLOSURES: Final = frozenset({"MAKE_CELL", "LOAD_CLOSURE", "COPY_FREE_VARS"})

_READING: Final = (
    *("BINARY_", "COMPARE_", "CONTAINS_", "IS_OP", "TO_BOOL", "UNARY_"),
    *("BUILD_STRING", "BUILD_TUPLE", "CONVERT_VALUE", "FORMAT_"),
    *("JUMP_", "POP_JUMP_", "LOAD_", "RETURN_CONST", "RETURN_VALUE"),
    *("CACHE", "COPY", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "POP_TOP", "RESUME", "SWAP"),
)
"""Prefixes of the names of bytecode instructions that neither store nor call."""


@dataclass(frozen=True, eq=False)
class FunctionFacts:
    """What the code of a function says, whatever the values of the variables around it; :func:`facts` keeps it.

    Attributes:
        code: The code.
    """

    code: CodeType

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that take arguments by position."""
        return self.code.co_varnames[: self.code.co_argcount]

    @property
    def takes_more(self) -> bool:
        """Whether it takes arguments by name alone, or any number of them."""
        return bool(self.code.co_kwonlyargcount or self.code.co_flags & _REST)

    @cached_property
    def codes(self) -> tuple[CodeType, ...]:
        """The code, and that of the functions and comprehensions in it."""
        return tuple(_codes_of(self.code))

    @cached_property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The names of global variables and of attributes that each of the codes looks up."""
        return tuple([code.co_names for code in self.codes])

    @cached_property
    def global_names(self) -> tuple[str, ...]:
        """The names of the variables of its module that it uses, in the order of their use."""
        steps = (step for code in self.codes for step in dis.get_instructions(code) if step.opname in _GLOBAL)
        return tuple(dict.fromkeys(step.argval for step in steps))

    @cached_property
    def constants(self) -> tuple[object, ...]:
        """The constants of the codes."""
        return tuple([each for code in self.codes for each in code.co_consts if not isinstance(each, CodeType)])

    @cached_property
    def only_reads(self) -> bool:
        """Whether it certainly does not change its arguments: it reads fields and computes."""
        return all(each.opname.startswith(_READING) for each in dis.get_instructions(self.code))

    def reads_only(self, parameter: str, attributes: Collection[str]) -> bool:
        """Returns whether it does nothing with a parameter but to read some attributes of it."""
        return parameter not in self.code.co_cellvars and not _passes_on(self.code, parameter, attributes)

    @cached_property
    def may_change_self(self) -> bool:
        """Whether the function may store to its first argument or pass it on, and not only look up its attributes."""
        return not self.parameters or _passes_on(self.code, self.parameters[0])

    @cached_property
    def gives_one_tuple(self) -> bool:
        """Whether it returns a tuple of two parts or more wherever it returns something.

        A tuple of tuples is not counted: it is likely to be one of records.
        """
        if self.code.co_flags & _NO_PLAIN_RESULT:
            return False
        steps = list(dis.get_instructions(self.code))
        lengths: set[int] = set()
        for place, step in enumerate(steps):
            if step.opname == "RETURN_CONST":
                lengths.add(_tuple_length(steps[: place + 1]))
            elif step.opname == "RETURN_VALUE":
                lengths.add(_tuple_length(steps[:place]))
                # Where a condition chooses the result, one branch jumps over the other.
                jumps = [each.opname.startswith("JUMP") and each.argval == step.offset for each in steps]
                lengths.update(_tuple_length(steps[:at]) for at, is_jump in enumerate(jumps) if is_jump)
        lengths.discard(0)  # None
        return len(lengths) == 1 and lengths.pop() >= 2

    def names_and_texts(self, doc: str | None) -> Iterator[str]:
        """Yields the names and texts of the codes, which are the same in each version of Python.

        Numbers are left out: versions of Python differ in which of them are constants of the code.
        """
        for code in self.codes:
            yield from code.co_names
            for constant in code.co_consts:
                is_text = isinstance(constant, (str, bytes)) and (constant != doc or code is not self.code)
                if is_text and "<locals>" not in str(constant):
                    yield repr(constant)

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in the codes, whether this version of Python has them as constants or in its instructions."""
        steps = (step for code in self.codes for step in dis.get_instructions(code))
        values = [step.argval for step in steps if step.opcode in dis.hasconst or step.opname == "LOAD_SMALL_INT"]
        return tuple([repr(number) for value in values for number in _numbers_in(value)])

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """The bytecode, names and loaded constants of all codes, which depend on the version of Python."""
        loaded = [
            (step.opname, step.argrepr if step.opcode in dis.hasconst and not isinstance(step.argval, CodeType) else "")
            for code in self.codes
            for step in dis.get_instructions(code)
        ]
        return (*(f"{code.co_code!r} {code.co_names}" for code in self.codes), repr(loaded))


def facts(function: FunctionType) -> FunctionFacts:
    """The facts about the code of a function. Functions of one code share them."""
    return _facts_of(function.__code__)


@lru_cache(maxsize=2_000)
def _facts_of(code: CodeType) -> FunctionFacts:
    return FunctionFacts(code)


def closure_of(function: FunctionType) -> dict[str, object]:
    """The variables of the functions around that a function uses, by name. Those without a value are left out."""
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables


def globals_of(function: FunctionType) -> dict[str, object]:
    """The variables of its module that a function uses, by name, in the order of their use; as cloudpickle sends them.

    An attribute that has the name of such a variable is none. Variables without a value are left out.
    """
    variables = function.__globals__
    return {name: variables[name] for name in facts(function).global_names if name in variables}


def named_values(function: FunctionType) -> Iterator[object]:
    """Yields the values that a function may look up: variables around it, defaults, and attributes of modules.

    Code does not tell names of attributes from those of variables, so that a few values too many may be found.
    """
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    around = closure_of(function).values()
    yield from around
    variables = function.__globals__
    for used in facts(function).names:
        # pytest gives such names to what assertions call; all tests of a run can be reached from there.
        names = [name for name in used if not name.startswith("@")]
        values = [variables[name] if name in variables else _imported(name, variables) for name in names]
        yield from values
        searched: set[str] = set()
        waiting = [value for value in (*around, *values) if isinstance(value, ModuleType)]
        while waiting:
            module = waiting.pop()
            if module.__name__ not in searched and not is_library(module.__name__):
                searched.add(module.__name__)
                members = [vars(module)[name] for name in names if name in vars(module)]
                yield from members
                waiting += [member for member in members if isinstance(member, ModuleType)]


def _imported(name: str, variables: Mapping[str, object]) -> ModuleType | None:
    """The module that a function imports by that name, if it has been imported already."""
    package = variables.get("__package__")
    while isinstance(package, str) and package:
        module = sys.modules.get(f"{package}.{name}")
        if module is not None:
            return module
        package = package.rpartition(".")[0]
    return sys.modules.get(name)


def is_generated(method: object) -> bool:
    """Whether a method of a dataclass is one that the decorator wrote."""
    # The decorator leaves no mark, but it compiles from a text. ``python -c`` does that too, hence the second look.
    code = getattr(method, "__code__", None)
    if not inspect.iscode(code) or code.co_filename != "<string>":
        return False
    qualified: str = getattr(code, "co_qualname", "__create_fn__")
    return qualified.startswith("__create_fn__")


def _codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_of(constant)


def _passes_on(code: CodeType, name: str, attributes: Collection[str] | None = None) -> bool:
    """Whether code may do more with a variable than look up some attributes of it; None: those of all names."""
    if not _BACK_DOORS.isdisjoint(code.co_names):
        return True
    instructions = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "NOP")]
    for instruction, following in zip(instructions, [*instructions[1:], instructions[-1]], strict=True):
        is_lookup = following.opname in _LOOKUPS
        if attributes is None and is_lookup and (following.argval in ONCE or is_special(following.argval)):
            return True
        is_lookup = is_lookup and (attributes is None or following.argval in attributes)
        is_local = instruction.opcode in dis.haslocal
        if not is_local and instruction.opcode not in dis.hasfree:
            continue
        *others, last = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        # From Python 3.13 on a variable is loaded for closures by the instruction for local variables.
        if instruction.opname in _OF_CLOSURES or (is_local and name in code.co_cellvars):
            continue
        if name in others or (last == name and not (is_lookup and "LOAD" in instruction.opname)):
            return True
    nested = [each for each in code.co_consts if isinstance(each, CodeType)]
    return any(_passes_on(each, name if name in each.co_freevars else "", attributes) for each in nested)


def imports_name(frame: FrameType) -> bool:
    """Whether a frame is at ``from module import name``."""
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def is_special(name: str) -> bool:
    """Whether a name is one that Python gives a meaning, ``__class__`` left out."""
    return name.startswith("__") and name.endswith("__") and name != "__class__"


def _tuple_length(steps: Sequence[dis.Instruction]) -> int:
    """The parts of the tuple that code leaves to be returned; 0: it is None, -1: it is something else."""
    last = steps[-1]
    if last.opname == "BUILD_TUPLE" and last.arg is not None:
        nested = len(steps) > 1 and (steps[-2].opname == "BUILD_TUPLE" or isinstance(steps[-2].argval, tuple))
        return -1 if nested else last.arg
    if last.opname in ("LOAD_CONST", "RETURN_CONST"):
        if last.argval is None:
            return 0
        if isinstance(last.argval, tuple) and not any(isinstance(part, tuple) for part in last.argval):
            return len(last.argval)
    return -1


def _numbers_in(value: object) -> Iterator[int | float | complex]:
    if isinstance(value, (int, float, complex)):
        yield value
    elif isinstance(value, (tuple, frozenset)):
        for part in value:
            yield from _numbers_in(part)
    elif isinstance(value, slice):
        yield from _numbers_in((value.start, value.stop, value.step))

"""Which parameters of public classes and functions their docstrings explain; for the reference, and for its test."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Protocol

__all__ = ["named_by_class", "named_in", "public_callables", "unexplained"]

# Any in this module: functions and classes of every type.

_SECTION = re.compile(r"^( *)(?:Args|Attributes):\n((?:\1 +.*\n|\n)*)", re.MULTILINE)
_STAGES = "windrow.builder."
_MADE_BY_CALLS = ("DataStreamSink", "PipelineSink", "RunningPipeline")
_MAKERS = ("of", "with_gap")
"""The class methods that make triggers, evictors and windows, with the parameters of their constructors."""


def named_in(docstring: str | None) -> set[str]:
    """The names that stand in front of a colon in the sections ``Args`` and ``Attributes`` of a docstring."""
    names: set[str] = set()
    for section in _SECTION.finditer(inspect.cleandoc(docstring or "") + "\n"):
        lines = textwrap.dedent(section[2]).splitlines()
        names |= {line.partition(":")[0].strip(" *") for line in lines if line[:1].strip() and ":" in line}
    return names


def named_by_class(kind: type) -> set[str]:
    """The parameters of the constructor of a class that its docstring explains, or a text below a field."""
    try:
        body = getattr(ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0], "body", [])
    except (OSError, TypeError):
        body = []
    fields = {
        field.target.id
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }
    return named_in(kind.__doc__) | fields


def unexplained(target: Callable[..., Any], explained: set[str]) -> list[str]:
    """The parameters that a caller gives, without those that are explained."""
    try:
        names = list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return []
    return [name for name in names if name not in explained and name not in ("self", "cls") and name[0] != "_"]


def public_callables(modules: Iterable[str]) -> Iterator[tuple[str, Callable[..., Any], set[str]]]:
    """Yields the name of each public function, constructor and method, itself, and the names that are explained.

    A method that overrides another one may leave its parameters to the docstring of that, and a constructor to those of
    the base classes, or of the class method that makes objects. What windrow alone makes has no constructor for
    callers: the stages, what a protocol describes, and members of enums.
    """
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            found = getattr(module, name)
            label = f"{module_name}.{name}"
            if not inspect.isclass(found):
                if inspect.isfunction(found):
                    yield label, found, named_in(found.__doc__)
                continue
            bases = [base for base in found.__mro__ if base.__module__.startswith("windrow")]
            if _is_made_by_hand(found):
                makers = [named_in(getattr(found, maker).__doc__) for maker in _MAKERS if hasattr(found, maker)]
                yield label, found, set().union(*map(named_by_class, bases), *makers)
            for method_name in sorted({key for base in bases for key in vars(base) if key[0] != "_"}):
                methods = [_function(vars(base)[method_name]) for base in bases if method_name in vars(base)]
                if inspect.isfunction(methods[0]) and methods[0].__module__.startswith("windrow"):
                    names = set().union(*[named_in(getattr(method, "__doc__", None)) for method in methods])
                    yield f"{label}.{method_name}", methods[0], names


def _function(member: object) -> object:
    return member.__func__ if isinstance(member, (classmethod, staticmethod)) else member


def _is_made_by_hand(kind: type) -> bool:
    if kind.__module__.startswith(_STAGES) or kind.__name__ in _MADE_BY_CALLS:
        return False
    return not issubclass(kind, Enum) and Protocol not in kind.__bases__ and kind.__module__.startswith("windrow")

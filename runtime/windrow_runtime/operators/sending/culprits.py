"""Finds objects in functions that cannot be pickled, and refuses their steps with the same error on both engines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, Final

from windrow.calls.attributes import attributes_of
from windrow.errors import UnsupportedOperationError
from windrow.facts.code import closure_of, globals_of
from windrow.facts.packages import is_foreign, is_of_windrow, top_package
from windrow.plan import Node, Step
from windrow_runtime.operators.errors import first_line

# Any in this module: functions of the user's may hold objects of any type.

_DEEPEST: Final = 20
_ITEMS: Final = 1_000
_NOT_CALLED: Final = frozenset({"element_type", "input", "key_type", "location", "name", "rules", "streams"})
IN_OPEN: Final = (
    "make it in open() of a function class, such as MapFunction, which each worker calls: "
    "self.it = ...; open files, connections and locks belong there"
)


def called_parts(node: Node) -> dict[str, object]:
    """Returns the functions that a step calls on workers, and the objects that have some, by the names of its parts."""
    if node.is_source or (node.is_sink and node.error_policy is None):
        return {}  # where a sink has a policy, workers ask it which elements it cannot write
    return {each.name: getattr(node, each.name) for each in fields(node) if each.name not in _NOT_CALLED}


Failure = Callable[[object], Exception | None]
"""Tries to pickle a value, and returns the error, if there is one."""


def refuse_unsendable(
    step: Step, parts: Iterable[object], what: str = "a function of the step", hint: str = IN_OPEN, *, failure: Failure
) -> None:
    """Refuse a step whose functions or objects refer to objects that cannot be sent to workers."""
    for part in parts:
        error = failure(part)
        if error is None:
            continue
        path, culprit, reason = _find(part, error, failure)
        class_ = type(culprit)
        on_driver = top_package(class_.__module__) == "pyspark"
        name = class_.__qualname__ if class_.__module__ == "builtins" else f"{class_.__module__}.{class_.__qualname__}"
        route = f"{' -> '.join(f'`{part_name}`' for part_name in path)}, " if path else ""
        raise UnsupportedOperationError(
            f"{what} cannot be sent to Spark's workers",
            given=f"{route}a {name}: {first_line(reason)}",
            expected="functions and objects that can be pickled, with all variables that they use",
            where=step.where,
            hint="Spark's own objects exist on the driver alone: use them before the pipeline, or after to_dataframe"
            if on_driver
            else hint,
        ) from None


def _find(value: object, error: Exception, fails: Failure) -> tuple[list[str], object, Exception]:
    """Returns the innermost value that cannot be pickled, with the names that lead to it."""
    path: list[str] = []
    seen = {id(value)}
    while len(seen) < _DEEPEST:
        for name, part in _held_by(value):
            failure = None if id(part) in seen else fails(part)
            if failure is not None:
                value, error = part, failure
                seen.add(id(part))
                path.extend([name] if name else [])
                break
        else:
            break
    return path, value, error


def _held_by(value: Any) -> Iterator[tuple[str, object]]:
    """Yields the objects that a value refers to, each with its name in the user's code, empty if it has none."""
    if isinstance(value, FunctionType):
        yield from _variables_of(value)
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from (("", argument) for argument in value.args)
        yield from value.keywords.items()
    elif isinstance(value, MethodType):
        yield "self", value.__self__
        yield "", value.__func__
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", item) for index, item in enumerate(islice(value, _ITEMS)))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in islice(value.items(), _ITEMS))
    elif isinstance(value, type):
        yield from vars(value).items()
    elif not is_foreign(type(value)):
        own = not is_of_windrow(type(value).__module__)
        yield from ((f"self.{name}" if own else "", part) for name, part in attributes_of(value).items())
        yield "", type(value)


def _variables_of(function: FunctionType) -> Iterator[tuple[str, object]]:
    yield from closure_of(function).items()
    yield from globals_of(function).items()
    yield from (("", default) for default in function.__defaults__ or ())
    yield from (function.__kwdefaults__ or {}).items()

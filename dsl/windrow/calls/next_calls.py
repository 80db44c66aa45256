"""Finds the calls that lead from a stage of the builder to one that has a certain call, by the types they return."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from types import FunctionType
from typing import Final, get_overloads

_MOST_WAYS: Final = 2
_FARTHEST: Final = 3
"""The most calls before the one that is looked for."""


@lru_cache(maxsize=256)
def next_calls(class_: type, name: str) -> str | None:
    """The shortest ways from a stage to a call: ``key_by(...).distinct(...)``.

    Args:
        class_: The class of the stage.
        name: The name of the call.

    Returns:
        At most two, which begin with different calls; None where no way leads there.
    """
    base = [each for each in class_.__mro__ if each.__module__.startswith("windrow.")][-1]
    stages = {stage.__name__: stage for stage in _subclasses(base)}
    ways: deque[tuple[type, tuple[str, ...]]] = deque([(class_, ())])
    seen = {class_}
    by_first_call: dict[str, str] = {}
    while ways and len(by_first_call) < _MOST_WAYS:
        stage, calls = ways.popleft()
        called = inspect.getattr_static(stage, name, None)
        if calls and isinstance(called, FunctionType):
            by_first_call.setdefault(calls[0].partition("(")[0], ".".join((*calls, _text(called))))
        # A stream has all calls, so that what it leads to is another program.
        elif len(calls) < _FARTHEST and not (calls and stage.__name__ == "DataStream"):
            for function in _calls(stage):
                for made in sorted(_returned(function) & stages.keys()):
                    if stages[made] not in seen:
                        seen.add(stages[made])
                        ways.append((stages[made], (*calls, _text(function))))
    return ", or ".join(by_first_call.values()) or None


def _subclasses(class_: type) -> Iterator[type]:
    each: type
    for each in class_.__subclasses__():
        yield each
        yield from _subclasses(each)


def _calls(stage: type) -> Iterator[FunctionType]:
    """Yields the public calls of a stage, its own before those of its bases."""
    for base in stage.__mro__:
        yield from (
            each for name, each in vars(base).items() if isinstance(each, FunctionType) and not name.startswith("_")
        )


def _returned(function: FunctionType) -> set[str]:
    """The names in the annotations of what a call returns."""
    forms = [function, *get_overloads(function)]
    return {word for form in forms for word in re.findall(r"\w+", str(form.__annotations__.get("return", "")))}


def _text(call: FunctionType) -> str:
    _, *parameters = inspect.signature(call).parameters.values()
    takes = any(
        each.kind is each.VAR_POSITIONAL or (each.default is each.empty and each.kind is not each.VAR_KEYWORD)
        for each in parameters
    )
    return f"{call.__name__}({'...' if takes else ''})"

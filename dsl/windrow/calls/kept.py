"""Warns of functions that keep something on ``self``, or in variables around them, from one call to the next.

On Spark each batch begins with new copies of the functions, so what calls have left is gone, without an error. The code
of functions is read; where it does not say for sure there is no warning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any, Final

from windrow.aggregates.combined import Combined
from windrow.errors import warn
from windrow.facts.code import ONCE
from windrow.facts.keeping import Kept, kept_around, kept_by_methods
from windrow.facts.packages import is_library
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
from windrow.plan.steps import Step
from windrow.triggers import Trigger

# Any in this module: functions of every type.

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
        if step.node.shares_attributes:
            continue
        for part in step.node.user_parts:
            for name, kept in _kept_by(part):
                hint = next((text for kinds, text in _HINTS if isinstance(part, kinds)), _ELSE)
                warn(
                    f"{name} keeps {kept.text} from one call to the next, and it is gone at the next batch or key",
                    given=f"line {kept.line} of {kept.file}",
                    where=step.where,
                    hint=hint,
                    location=step.node.location,
                )


def _kept_by(part: Any) -> Iterator[tuple[str, Kept]]:
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
            yield from kept_by_methods(part.__self__, [part.__name__])
    elif isinstance(part, FunctionType):
        yield from ((part.__qualname__, kept) for kept in kept_around(part))
    elif part is not None and not isinstance(part, type) and not is_library(type(part).__module__):
        yield from kept_by_methods(part, _called_by_windrow(type(part)))


def _called_by_windrow(class_: type) -> Iterator[str]:
    """Yields the names of the methods of a user's class that windrow calls for elements and timers."""
    bases = [vars(base) for base in class_.__mro__ if is_library(base.__module__)]
    for name in dict.fromkeys(
        name for base in class_.__mro__ if not is_library(base.__module__) for name in vars(base)
    ):
        is_special = name.startswith("__") and name != "__call__"
        if name not in ONCE and not is_special and (name == "__call__" or any(name in base for base in bases)):
            yield name

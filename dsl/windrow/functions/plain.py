"""Wraps plain functions, and functions without a key, as the process functions that operators call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from windrow.functions.names import function_name
from windrow.functions.window_function import ProcessAllWindowFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.functions.wrapper import Wrapper

if TYPE_CHECKING:
    # windrow.windows needs triggers, and these need state and aggregate functions.
    from windrow.windows.window import Window

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")
W = TypeVar("W", bound="Window")


class Applied(ProcessWindowFunction[T, R, K, W]):
    """A plain function as a process function."""

    def __init__(self, function: Callable[[K, W, Sequence[T]], Iterable[R] | None]) -> None:
        self.function = function

    def process(self, key: K, context: ProcessWindowContext[W], elements: Sequence[T]) -> Iterable[R] | None:
        return self.function(key, context.window, elements)

    def describe(self) -> str:
        return function_name(self.function)


class AppliedAll(ProcessAllWindowFunction[T, R, W]):
    """A plain function as a process function without a key."""

    def __init__(self, function: Callable[[W, Sequence[T]], Iterable[R] | None]) -> None:
        self.function = function

    def process(self, context: ProcessWindowContext[W], elements: Sequence[T]) -> Iterable[R] | None:
        return self.function(context.window, elements)

    def describe(self) -> str:
        return function_name(self.function)


class WithoutKey(Wrapper, ProcessWindowFunction[T, R, object, W]):
    """A function without a key, for the operator, which always has one."""

    function: ProcessAllWindowFunction[T, R, W]

    def process(self, key: object, context: ProcessWindowContext[W], elements: Sequence[T]) -> Iterable[R] | None:
        return self.function.process(context, elements)

    def clear(self, context: ProcessWindowContext[W]) -> None:
        self.function.clear(context)

    def describe(self) -> str:
        return self.function.describe()


# Any: functions of elements and results of every type.
def sees_cleanups(function: ProcessWindowFunction[Any, Any, Any, Any]) -> bool:
    """Returns whether a window function overrides ``clear``, which runs when a window is cleaned up."""
    if isinstance(function, WithoutKey):
        return type(function.function).clear is not ProcessAllWindowFunction.clear
    return type(function).clear is not ProcessWindowFunction.clear

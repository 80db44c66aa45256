"""Decides which window functions columns can call: those that look at their window and its contents alone."""

from __future__ import annotations

from inspect import iscoroutinefunction
from types import FunctionType
from typing import Any, Final

from windrow.facts.code import facts
from windrow.functions import ProcessAllWindowFunction, ProcessWindowFunction
from windrow.functions.marked import CoGroup, JoinPairs
from windrow.functions.plain import WithoutKey, sees_cleanups
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.columnar.windows.step_windows import Sessions, Windows

# Any in this module: functions of elements and results of every type.

_SEEN: Final = frozenset({"window", "current_watermark", "current_processing_time", "pane", "output"})
"""What a function may read of its context; the rest is state, which columns do not keep for it."""

_PARAMETERS: Final = 4  # self, key, context, elements; a function without a key has one less


def check_window_function(process: ProcessWindowFunction[Any, Any, Any, Any], windows: Windows) -> None:
    """Declines a function that may keep state, and windows that columns do not fire for a function."""
    name = process.describe()
    if isinstance(process, (CoGroup, JoinPairs)):
        raise DeclinedError(f"{name} takes the elements of two streams")
    if not isinstance(windows, (Slices, Sessions)) or windows.by_clock:
        raise DeclinedError(f"{name} follows the aggregate")
    if isinstance(windows, Slices) and windows.is_global:
        raise DeclinedError("the general operator runs the window of all time")
    if sees_cleanups(process):
        raise DeclinedError(f"{name} clears state")
    if not _sees_window_alone(process.function if isinstance(process, WithoutKey) else process):
        raise DeclinedError(f"{name} may use the state of its context")


def _sees_window_alone(
    process: ProcessWindowFunction[Any, Any, Any, Any] | ProcessAllWindowFunction[Any, Any, Any],
) -> bool:
    """Returns whether the code of a function reads attributes of its context, none of them state, and no more."""
    class_ = type(process)
    method = class_.process
    if "process" in getattr(process, "__dict__", ()) or class_.__getattribute__ is not object.__getattribute__:
        return False
    if not isinstance(method, FunctionType):
        return False
    parameters = facts(method).parameters
    expected = _PARAMETERS if isinstance(process, ProcessWindowFunction) else _PARAMETERS - 1
    if len(parameters) != expected or facts(method).takes_more or iscoroutinefunction(method):
        return False
    return facts(method).reads_only(parameters[-2], _SEEN)

"""Checks the arguments of a stream's calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Final, NamedTuple, TypeVar

from windrow.errors import AN_INSTANCE, check_arity, function_hint
from windrow.facts.lazy import COROUTINE, GENERATOR, lazy_result
from windrow.failures import ErrorPolicy, OnError, Retry, is_word, policy_hint
from windrow.functions.rich import RichFunction
from windrow.plan.location import caller_location, refusal
from windrow.sinks import Sink
from windrow.tags import OutputTag
from windrow.windows import Window, WindowAssigner

T = TypeVar("T")
W = TypeVar("W", bound=Window)


_METHODS: Final = (
    *("map", "flat_map", "filter", "get_key", "reduce", "join", "co_group"),
    *("map1", "map2", "flat_map1", "flat_map2"),
)
"""The methods that users write in classes of functions, and that windrow calls for what they return."""

_INSTEAD: Final[Mapping[str, str]] = {
    "map": "use map_async(function, capacity=...), which has many under way at once",
    "flat_map": "use map_async(function, capacity=...) with one that returns a list, then flat_map of that list",
    "filter": "use map_async(function, capacity=...) to find what to filter by, then filter",
    "map_batches": "use map_async(function, capacity=...) for one element at a time, many of them under way at once",
}


def check_callable(function: object, call: str) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise refusal(f"{call} needs a function", given=function, expected="a callable", hint=function_hint(function))


def check_function(function: object, call: str, takes: str | None = None, *, may_yield: bool = False) -> None:
    """Refuse what cannot be called, and functions whose call gives no result; see :func:`check_result`.

    With ``takes`` it also refuses one that cannot be called with arguments of these names, divided by commas.
    """
    check_callable(function, call)
    check_result(function, call, may_yield=may_yield)
    if takes is not None:
        check_arity(function, call, takes, caller_location())


def check_plain_function(function: object, call: str, takes: str | None = None) -> None:
    """Refuse what :func:`check_function` refuses, and rich functions, which nobody would open there."""
    check_function(function, call, takes)
    if isinstance(function, RichFunction):
        raise refusal(
            f"{call} takes a plain function, whose open and close nobody would call",
            given=function,
            expected="a function that needs no open",
            hint="compute it in a map before",
        )


def check_result(function: object, call: str, *, may_yield: bool = False) -> None:
    """Refuse a function whose call gives a coroutine or a generator, which would be taken for the result.

    So is one whose class has such a method. With ``may_yield`` the call emits what a generator gives.
    """
    lazy = lazy_result(function, _methods(type(function)) if isinstance(function, RichFunction) else ())
    if lazy == COROUTINE:
        raise refusal(
            f"{call} does not await what a coroutine function gives",
            given=function,
            expected="a function without async, whose result is there when it returns",
            hint=_INSTEAD.get(call, "use map_async(function, capacity=...) before it or after it"),
        )
    if lazy == GENERATOR and not may_yield:
        raise refusal(
            f"{call} takes the result of a function, and one with yield gives a generator",
            given=function,
            expected="a function without yield, which returns its result",
            hint="use flat_map(function), which emits each value that it yields"
            if call == "map"
            else "return the result; flat_map takes functions that yield",
        )


def _methods(class_: type) -> Iterator[str]:
    """Yields the methods of a class of functions that windrow calls for what they return."""
    bases = [vars(base) for base in class_.__mro__ if base.__module__.startswith("windrow.")]
    return (name for name in _METHODS if any(name in base for base in bases))


def check_assigner(assigner: WindowAssigner[T, W]) -> WindowAssigner[T, W]:
    """The assigner, or an error where it is none."""
    if not isinstance(assigner, WindowAssigner):
        raise refusal(
            "windows need an assigner",
            given=assigner,
            expected="a WindowAssigner",
            hint="TumblingEventTimeWindows.of(timedelta(seconds=5))",
        )
    return assigner


def check_kind(argument: object, class_: type, message: str, expected: str, hint: str | None = None) -> None:
    """Refuse what is no instance of a class; the hint is for what is no class either."""
    if not isinstance(argument, class_):
        raise refusal(
            message, given=argument, expected=expected, hint=AN_INSTANCE if isinstance(argument, type) else hint
        )


class NoRetry(NamedTuple):
    """Says why a step takes no :class:`Retry`, and what to write instead."""

    reason: str
    hint: str


# Any: elements of every type; the methods of streams have proved that they fit.
def error_policy(on_error: OnError[Any], *, no_retry: NoRetry | None = None) -> ErrorPolicy | None:
    """The policy that an argument ``on_error`` states.

    Args:
        on_error: The argument.
        no_retry: Why the step takes no :class:`Retry`; None: it takes one.

    Returns:
        The policy; None where the run fails, as without the argument.

    Raises:
        InvalidArgumentError: If the argument has an unknown value.
    """
    if isinstance(on_error, Retry):
        if no_retry is not None:
            raise refusal(
                no_retry.reason, given=f"on_error={on_error!r}", expected='on_error="drop" or a tag', hint=no_retry.hint
            )
        then = error_policy(on_error.then)
        return ErrorPolicy(on_error.strategy) if then is None else replace(then, retry=on_error.strategy)
    if isinstance(on_error, OutputTag):
        return ErrorPolicy(tag=on_error)
    if not is_word(on_error):
        raise refusal(
            "on_error has an unknown value",
            given=on_error,
            expected='"fail", "drop", an OutputTag or a Retry',
            hint=policy_hint(on_error),
        )
    return ErrorPolicy(drops=True) if on_error == "drop" else None


_FAILS_AGAIN: Final = NoRetry(
    "an element that a sink cannot write fails at each try",
    "on_error=tag; a batch that the target has refused is tried again by a run from the checkpoint",
)


# Any: elements of every type; `sink_to` has proved that they fit.
def sink_policy(sink: Sink[Any], on_error: OnError[Any]) -> ErrorPolicy | None:
    """The policy for the elements of a sink; None where the run fails.

    Raises:
        InvalidArgumentError: If it is no policy or one with retries, or the sink cannot tell which elements fail.
    """
    policy = error_policy(on_error, no_retry=_FAILS_AGAIN)
    if policy is not None and not sink.encodes_elements:
        raise refusal(
            f"a {type(sink).__name__} cannot tell which elements it will not write, and takes no on_error",
            given=f"on_error={on_error!r}",
            expected="a sink that encodes elements one by one, such as a file, a table or a topic",
            hint="compute in map(function, on_error=tag) before the sink what may fail",
        )
    return policy


def check_sink(sink: object) -> None:
    """Refuse what is no sink.

    Args:
        sink: What ``sink_to`` was given.

    Raises:
        InvalidArgumentError: If it is another object, or the class of a sink.
    """
    if not isinstance(sink, Sink):
        raise refusal(
            "a stream goes to a sink",
            given=sink,
            expected="a windrow Sink",
            hint=AN_INSTANCE
            if isinstance(sink, type)
            else "JsonFileSink(path) or another sink of windrow.sinks writes to files"
            if isinstance(sink, (str, PathLike))
            else "FunctionSink(function) calls it; stream.print() shows elements"
            if callable(sink)
            else None,
        )

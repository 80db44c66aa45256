"""Makes steps without keys: process functions, functions of several elements, and asynchronous functions."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from inspect import iscoroutinefunction
from types import CoroutineType
from typing import Any, Final, get_args, get_origin

from windrow.builder.arguments import NoRetry, check_callable, check_function, check_kind, error_policy
from windrow.calls.attributes import holds
from windrow.counts import check_positive
from windrow.errors import check_arity
from windrow.failures import OnError
from windrow.functions.retries import AsyncRetryStrategy, FixedDelayRetryStrategy
from windrow.functions.stateless import AsyncFunction, ProcessFunction
from windrow.plan.base_node import Node
from windrow.plan.location import AtCaller, caller_location, refusal
from windrow.plan.nodes import MapAsyncNode, MapBatchesNode, ProcessNode
from windrow.plan.types import base_argument, iterable_item, made_type, result_type, sequence_type
from windrow.tags import OutputTag
from windrow.time import positive_millis

# Any in this module: the methods of streams have proved that functions and elements fit.


def process_node(
    node: Node, function: ProcessFunction[Any, Any], on_error: OnError[Any], name: str | None
) -> ProcessNode:
    """The step of a process function without keys."""
    if not isinstance(function, ProcessFunction):
        raise refusal(
            "process needs a process function",
            given=function,
            expected="an instance of ProcessFunction; a KeyedProcessFunction goes after key_by",
            hint=f"an instance of a subclass, such as {function.__name__}()"
            if isinstance(function, type)
            else "map and flat_map take functions; here it is an instance of a subclass of ProcessFunction",
        )
    type_form = base_argument(function, ProcessFunction, 1) or iterable_item(result_type(function.process_element))
    policy = error_policy(on_error)
    return ProcessNode(input=node, function=function, on_error=policy, name=name, element_type=type_form)


def map_batches_node(
    node: Node, function: Callable[[Sequence[Any]], Iterable[Any]], size: int, on_error: OnError[Any], name: str | None
) -> MapBatchesNode:
    """The step of a function of several elements at a time."""
    check_function(function, "map_batches", "elements", may_yield=True)
    check_positive(size, "the size of a batch", where=caller_location())
    return MapBatchesNode(
        input=node,
        function=function,
        size=size,
        on_error=error_policy(on_error),
        name=name,
        element_type=iterable_item(made_type(function, sequence_type(node.element_type))),
    )


_OWN_RETRIES: Final = NoRetry(
    "map_async has retries of its own", "map_async(..., retry_strategy=strategy, on_error=tag)"
)


def map_async_node(
    node: Node,
    function: Callable[[Any], Awaitable[Any]],
    *,
    capacity: int,
    timeout: timedelta | None,
    rate_limit: float | None,
    retries: int,
    retry_strategy: AsyncRetryStrategy | None,
    ordered: bool,
    timed_out: OutputTag[Any] | None,
    failed: OutputTag[Any] | None,
    on_error: OnError[Any],
    name: str | None,
) -> MapAsyncNode:
    """The step of a coroutine function."""
    where = caller_location()
    check_callable(function, "map_async")
    check_arity(function, "map_async", "element", where)
    check_positive(capacity, "the capacity of map_async", where=where)
    if not _is_asynchronous(function):
        raise refusal(
            "map_async needs a coroutine function",
            given=function,
            expected="async def f(element), or an AsyncFunction",
            hint="wrap a function that returns an awaitable: async def f(element): return await ...; map(...) takes "
            "one that does not wait",
        )
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise refusal("retries are counted", given=retries, expected="an int, 0 or more")
    if retry_strategy is not None:
        check_kind(retry_strategy, AsyncRetryStrategy, "a strategy decides about retries", "an AsyncRetryStrategy")
        if retries:
            raise refusal(
                "retries are counted, or a strategy decides about them",
                given=f"retries={retries}, and {retry_strategy!r}",
                expected="one of both",
            )
    with AtCaller():
        millis = None if timeout is None else positive_millis(timeout, "the timeout of map_async")
    # A bool is an int, and NaN is not above 0.
    if rate_limit is not None and (type(rate_limit) not in (int, float) or not 0 < rate_limit < math.inf):
        raise refusal(
            "the rate limit of map_async is a number of calls a second",
            given=rate_limit,
            expected="an int or a float > 0",
        )
    if timed_out is not None:
        check_kind(timed_out, OutputTag, "what times out goes to the side output of a tag", "an OutputTag")
        if millis is None:
            raise refusal(
                "nothing times out without a timeout", given=timed_out.name, expected="timeout=timedelta(...)"
            )
    if failed is not None:
        check_kind(failed, OutputTag, "what has failed goes to the side output of a tag", "an OutputTag")
    policy = error_policy(on_error, no_retry=_OWN_RETRIES)
    if policy is not None and failed is not None:
        raise refusal(
            "what has failed goes to one side output, or is dropped",
            given=f"failed={failed!r}, and on_error={on_error!r}",
            expected="one of both",
            hint="on_error=tag has the error too, as a Failed",
        )
    if isinstance(function, AsyncFunction):
        _check_life(function)
    return MapAsyncNode(
        input=node,
        function=function,
        capacity=capacity,
        timeout=millis,
        rate_limit=rate_limit,
        retry=FixedDelayRetryStrategy(retries + 1) if retry_strategy is None else retry_strategy,
        ordered=ordered,
        timed_out=timed_out,
        failed=failed,
        on_error=policy,
        name=name,
        element_type=_awaited(function),
    )


def _check_life(function: AsyncFunction[Any, Any]) -> None:
    for name in ("open_async", "close_async"):
        if not iscoroutinefunction(getattr(function, name)):
            raise refusal(
                f"{name} of an AsyncFunction runs in the event loop",
                given=f"{type(function).__name__}.{name}, which is no coroutine function",
                expected=f"async def {name}(self, ...)",
                hint="open and close are called outside of the event loop",
            )


def _is_asynchronous(function: object) -> bool:
    # An object that is no plain function is called by a method of its class.
    return any(holds(iscoroutinefunction, code) for code in (function, type(function).__call__))


def _awaited(function: Callable[[Any], Awaitable[Any]]) -> object | None:
    """The type of what a coroutine function returns."""
    if isinstance(function, AsyncFunction):
        return base_argument(function, AsyncFunction, 1) or result_type(function.invoke)
    type_form = result_type(function)
    origin, arguments = get_origin(type_form), get_args(type_form)
    if origin is CoroutineType or (origin is not None and issubclass(origin, Awaitable)):
        return arguments[-1] if arguments else None
    return type_form

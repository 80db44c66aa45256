"""Coroutines of ``map_async`` that are late, fail, are tried again, or are interrupted."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from windrow import OutputTag, Pipeline, from_collection
from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.functions import (
    AsyncFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    RuntimeContext,
)
from windrow.plan import MapAsyncNode
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.async_step import AsyncStep
from windrow_runtime.operators.guarded.trail import Trail
from windrow_runtime.operators.lookup_steps import Taps
from windrow_runtime.operators.topology import topology_of

SHORT = timedelta(milliseconds=30)
NONE = timedelta(0)
SLOW: OutputTag[int] = OutputTag("slow", int)
FAILED: OutputTag[int] = OutputTag("failed", int)


def run(function: Callable[[int], Any], *, values: tuple[int, ...] = (1, 2), **options: Any) -> dict[str, list[Any]]:
    """What comes out, in the main output and in the side outputs that have a tag."""
    results: Any = from_collection(values, int).map_async(function, **{"capacity": 4, **options})
    sinks = {"main": CollectSink[Any]()}
    ends = [results.sink_to(sinks["main"])]
    for tag in (options.get("timed_out"), options.get("failed")):
        if tag is not None:
            sinks[tag.name] = CollectSink[Any]()
            ends.append(results.get_side_output(tag).sink_to(sinks[tag.name]))
    found = LocalRunner().run(Pipeline("p", *ends))
    return {name: found.collected(sink) for name, sink in sinks.items()}


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "windrow-map-async"]


# Any: a test gives what it asks of the step.
def limited(rate_limit: float, values: tuple[int, ...], fails: bool = False, **options: Any) -> list[float]:
    """When each try began, in seconds."""
    begun: list[float] = []
    failing = set(values) if fails else set()

    async def told(value: int) -> int:
        begun.append(time.monotonic())
        if value in failing:
            failing.remove(value)
            raise ConnectionError
        return value

    assert run(told, values=values, rate_limit=rate_limit, **options)["main"] == list(values)
    return begun


def test_tries_begin_at_the_rate_of_the_limit() -> None:
    """A busy machine may begin the first one late, and the second one in its time."""
    begun = limited(200, tuple(range(20)), capacity=20)
    assert begun[-1] - begun[0] > 0.06
    again = limited(50, (1, 2), fails=True, retries=1)
    assert len(again) == 4
    assert again[-1] - again[0] > 0.03


def test_a_try_that_waits_for_its_turn_is_not_late() -> None:
    assert len(limited(50, (1, 2, 3, 4), timeout=SHORT)) == 4


def test_a_step_made_anew_in_a_worker_keeps_the_rate() -> None:
    """Each batch of Spark makes one."""
    begun = [limited(50, (value,))[0] for value in range(4)]
    assert begun[-1] - begun[0] > 0.055


def test_a_limit_is_shown() -> None:
    node = from_collection([1]).map_async(swallowing, capacity=1, rate_limit=2.5).node
    assert node.describe() == "swallowing, capacity 1, 2.5 a second, ordered"


async def swallowing(value: int) -> int:
    """Goes on though it is cancelled, as clients that catch everything do."""
    for _ in range(3 if value == 1 else 0):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            continue
    return value


def test_a_late_answer_of_a_client_that_swallows_its_cancellation_is_none() -> None:
    assert run(swallowing, timeout=SHORT, timed_out=SLOW) == {"main": [2], "slow": [1]}
    with pytest.raises(UserFunctionError, match="took too long"):
        run(swallowing, timeout=SHORT)
    assert threads() == []


def test_an_answer_that_held_the_loop_up_is_late_too() -> None:
    async def blocking(value: int) -> int:
        time.sleep(0.06)  # the fault
        return value

    assert run(blocking, values=(1,), timeout=SHORT, timed_out=SLOW) == {"main": [], "slow": [1]}


def test_a_client_that_never_ends_is_left_behind() -> None:
    async def stubborn(value: int) -> int:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            try:
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                continue
        return value

    begun = time.monotonic()
    results = from_collection([1], int).map_async(stubborn, capacity=4, timeout=SHORT, timed_out=SLOW)
    times = CollectSink[float]()
    late = results.get_side_output(SLOW).map(lambda value: time.monotonic())
    assert LocalRunner().run(Pipeline("p", late.sink_to(times))).collected(times)[0] - begun < 1
    # Further ones wait until one has ended, but not for ever.
    assert run(swallowing, values=(1, 1, 1), capacity=1, timeout=SHORT, timed_out=SLOW)["slow"] == [1, 1, 1]
    stream = from_collection([1, 2], int).map_async(stubborn, capacity=1, timeout=SHORT, timed_out=SLOW)
    topology = topology_of(Pipeline("p", stream.sink_to(CollectSink[int]())))
    ((step, node),) = [(step, step.node) for step in topology.steps if isinstance(step.node, MapAsyncNode)]
    hasty = AsyncStep(step, [], Taps(step, {}, Trail()), node, clean_up_seconds=0.05)
    with pytest.raises(UserFunctionError, match=r"go on though they were cancelled\n +given: +2 at a time"):
        hasty.push([1, 2], [0, 0])
    hasty.close()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["coroutine", "task", "group"])
def test_what_ends_programs_ends_the_run(kind: type[BaseException], where: str) -> None:
    cleaned: list[str] = []

    async def ending(value: int) -> int:
        async def end() -> None:
            raise kind("stop")

        if value == 2:
            await asyncio.sleep(0.01)
            if where == "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(end())
            elif where == "task":
                await asyncio.ensure_future(end())
            await end()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("done")
        return value

    expected = KeyboardInterrupt if kind is KeyboardInterrupt else UserFunctionError
    with pytest.raises(expected):
        run(ending)
    assert cleaned == ["done"]
    assert threads() == []


def test_what_ends_programs_ends_the_run_though_many_tasks_raise_it() -> None:
    cleaned: list[int] = []

    async def end() -> None:
        raise KeyboardInterrupt

    async def ending(value: int) -> int:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(end())
        finally:
            cleaned.append(value)
        return value

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(ending, values=tuple(range(8)), capacity=8)
    assert time.monotonic() - begun < 3
    assert sorted(cleaned) == list(range(8))
    assert threads() == []


def test_coroutines_clean_up_when_the_run_is_interrupted() -> None:
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cleaned: list[int] = []

    async def waiting(value: int) -> int:
        if value == 2:
            # Ctrl-C, as the main thread sees it.
            _thread.interrupt_main()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(value)
        return value

    with pytest.raises(KeyboardInterrupt):
        run(waiting)
    assert sorted(cleaned) == [1, 2]
    assert threads() == []


class Client(AsyncFunction[int, int]):
    """Makes and ends in the loop what belongs to it."""

    def __init__(self, life: list[str], *, fails: str = "") -> None:
        self.life = life
        self.fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        self.life.append("open")

    async def open_async(self, runtime_context: RuntimeContext) -> None:
        self.note("open_async")
        self.loop = asyncio.get_running_loop()
        runtime_context.metrics.counter("opened").inc()

    async def invoke(self, value: int) -> int:
        assert asyncio.get_running_loop() is self.loop
        self.note("invoke")
        return value

    async def close_async(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.note("close_async")

    def close(self) -> None:
        self.life.append("close")

    def note(self, name: str) -> None:
        self.life.append(name)
        if self.fails == name:
            raise ValueError(name)


def test_a_client_lives_in_the_loop() -> None:
    life: list[str] = []
    assert run(Client(life)) == {"main": [1, 2]}
    assert life == ["open", "open_async", "invoke", "invoke", "close_async", "close"]
    life.clear()
    with pytest.raises(UserFunctionError, match="ValueError: invoke"):
        run(Client(life, fails="invoke"), values=(1,))
    assert life == ["open", "open_async", "invoke", "close_async", "close"]
    for name in ("open_async", "close_async"):
        with pytest.raises(UserFunctionError, match=rf"ValueError: {name}\n +given: +{name}\(\) of Client"):
            run(Client([], fails=name))
    assert threads() == []


def test_what_runs_in_the_loop_is_a_coroutine_function() -> None:
    class Plain(AsyncFunction[int, int]):
        def open_async(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]  # it is refused
            return None

        async def invoke(self, value: int) -> int:
            return value

    with pytest.raises(InvalidArgumentError, match=r"Plain.open_async, which is no coroutine function"):
        run(Plain())


class Flaky:
    """Fails some times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0

    async def __call__(self, value: int) -> int:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return value


def test_tries_are_counted() -> None:
    flaky = Flaky(*[ConnectionError("away")] * 2)
    assert run(flaky, values=(1,), retries=2) == {"main": [1]}
    assert flaky.tries == 3
    with pytest.raises(UserFunctionError, match="ConnectionError: away"):
        run(Flaky(*[ConnectionError("away")] * 2), values=(1,), retries=1)


def test_a_strategy_decides_which_errors_are_tried_again() -> None:
    by_kind = FixedDelayRetryStrategy(3, retry_on=(ConnectionError, TimeoutError))
    flaky = Flaky(ConnectionError("a"), TimeoutError("b"))
    assert run(flaky, values=(1,), retry_strategy=by_kind) == {"main": [1]}
    assert flaky.tries == 3
    other = Flaky(ValueError("no"))
    assert run(other, values=(1,), retry_strategy=by_kind, failed=FAILED) == {"main": [], "failed": [1]}
    assert other.tries == 1
    by_function = FixedDelayRetryStrategy(3, retry_on=lambda error: "again" in str(error))
    assert run(Flaky(ValueError("again")), values=(1,), retry_strategy=by_function) == {"main": [1]}
    often = Flaky(*[ConnectionError("a")] * 9)
    with pytest.raises(UserFunctionError, match="ConnectionError"):
        run(often, values=(1,), retry_strategy=by_kind)
    assert often.tries == 3


def test_a_strategy_decides_which_results_are_tried_again() -> None:
    seen: list[int] = []

    async def growing(value: int) -> int:
        seen.append(value)
        return len(seen)

    strategy = FixedDelayRetryStrategy(5, retry_result=lambda result: result < 3)
    assert run(growing, values=(1,), retry_strategy=strategy) == {"main": [3]}
    # The last one is emitted, whatever it is.
    seen.clear()
    strategy = FixedDelayRetryStrategy(2, retry_result=lambda result: True)
    assert run(growing, values=(1,), retry_strategy=strategy) == {"main": [2]}


def test_times_between_tries() -> None:
    fixed = FixedDelayRetryStrategy(3, SHORT)
    begun = time.monotonic()
    run(Flaky(ValueError(), ValueError()), values=(1,), retry_strategy=fixed)
    assert time.monotonic() - begun >= 0.06
    growing = ExponentialBackoffDelayRetryStrategy(9, timedelta(seconds=1), timedelta(seconds=5))
    assert [growing.backoff(attempts).total_seconds() for attempts in (1, 2, 3, 4, 5000)] == [1, 2, 4, 5, 5]
    steady = ExponentialBackoffDelayRetryStrategy(9, timedelta(seconds=1), timedelta(seconds=5), multiplier=1)
    assert steady.backoff(4) == timedelta(seconds=1)


def test_what_failed_in_the_end_goes_aside() -> None:
    async def failing(value: int) -> int:
        if value == 1:
            raise ValueError(value)
        await asyncio.sleep(0 if value == 3 else 60)
        return value

    both = run(failing, values=(1, 2, 3), timeout=SHORT, retries=1, failed=FAILED, timed_out=SLOW)
    assert both == {"main": [3], "failed": [1], "slow": [2]}
    assert run(failing, values=(1, 2, 3), timeout=SHORT, failed=FAILED) == {"main": [3], "failed": [1, 2]}
    assert run(failing, values=(1, 3), ordered=False, failed=FAILED) == {"main": [3], "failed": [1]}


class Own(AsyncRetryStrategy):
    """A strategy of a user's own."""

    def can_retry(self, attempts: int) -> bool:
        return attempts < 2

    def backoff(self, attempts: int) -> timedelta:
        return NONE

    def retries_error(self, error: Exception) -> bool:
        if isinstance(error, KeyError):
            raise RuntimeError("of the strategy")
        return True


def test_a_strategy_of_ones_own() -> None:
    assert run(Flaky(ValueError()), values=(1,), retry_strategy=Own()) == {"main": [1]}
    with pytest.raises(UserFunctionError, match="RuntimeError: of the strategy"):
        run(Flaky(KeyError()), values=(1,), retry_strategy=Own())


# Any: what mypy refuses is tried.
a_type: Any = int
a_number: Any = 3


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("attempts of a retry strategy must be positive", lambda: FixedDelayRetryStrategy(0)),
        ("delay of a retry strategy", lambda: FixedDelayRetryStrategy(1, -SHORT)),
        ("errors after which it tries", lambda: FixedDelayRetryStrategy(1, retry_on=a_type)),
        ("retry_result of a retry strategy must be", lambda: FixedDelayRetryStrategy(1, retry_result=a_number)),
        ("the multiplier", lambda: ExponentialBackoffDelayRetryStrategy(1, NONE, NONE, 0.5)),
        ("retries are counted, or", lambda: run(Flaky(), retries=1, retry_strategy=Own())),
        ("a strategy decides", lambda: run(Flaky(), retry_strategy=3)),
        ("what has failed goes", lambda: run(Flaky(), failed="failed")),
    ],
    ids=range(8),
)
def test_arguments_are_checked(message: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()

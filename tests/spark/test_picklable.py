"""Functions that hold what no worker can have."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windrow import Pipeline, from_collection
from windrow.errors import UnsupportedOperationError
from windrow.functions import AggregateFunction, KeyedProcessContext, KeyedProcessFunction, MapFunction
from windrow.plan import Step
from windrow.sinks import CollectSink
from windrow_runtime.operators.sending.culprits import called_parts
from windrow_spark.exchange.picklable import check_picklable

# Any in this module: functions that hold values of every type.


class Holding(MapFunction[int, int]):
    """Holds something from the time when the plan is made."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def map(self, value: int) -> int:
        return value


def refused(function: Callable[[int], Any]) -> UnsupportedOperationError:
    pipeline = Pipeline("held", from_collection([1]).map(function).sink_to(CollectSink[Any]()))
    return refused_step(pipeline.steps[1])


def refused_step(step: Step) -> UnsupportedOperationError:
    with pytest.raises(UnsupportedOperationError) as caught:
        check_picklable(step, called_parts(step.node).values())
    error = caught.value
    assert error.message == "a function of the step cannot be sent to Spark's workers"
    assert str(error.where).startswith("held.")
    assert f"{__file__}:" in str(error.where)
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert len(str(error).splitlines()) == 5
    return error


def numbers() -> Iterator[int]:
    yield 1


def test_what_a_variable_holds(tmp_path: Path) -> None:
    lock: Any = threading.Lock()
    takes_two: Any = lambda number, it: number  # noqa: E731  mypy infers no lambda inside partial
    generator = numbers()

    def inner(number: int) -> Any:
        return lock, number

    def with_default(number: int, held: Any = lock) -> Any:
        return held

    (tmp_path / "in").touch()
    with (tmp_path / "out").open("w") as file, (tmp_path / "in").open() as read, socket.socket() as connection:
        cases: list[tuple[Callable[[int], Any], str]] = [
            (lambda number: lock.acquire(), "`lock`, a _thread.lock: "),
            (lambda number: [generator for _ in range(number)], "`generator`, a generator: "),
            (lambda number: file.write("x"), "`file`, a _io.TextIOWrapper: "),
            # Of this one cloudpickle would send what is left to read.
            (lambda number: read.read(), "`read`, a _io.TextIOWrapper: "),
            (lambda number: connection.send(b""), "`connection`, a socket.socket: "),
            (lambda number: inner(number), "`inner` -> `lock`, a _thread.lock: "),  # noqa: PLW0108  a call
            (functools.partial(takes_two, it=lock), "`it`, a _thread.lock: "),
            (Holding(lock), "`self.held`, a _thread.lock: "),
            (Holding({"a": [generator]}), "`self.held` -> `['a']` -> `[0]`, a generator: "),
            (Holding(lock).map, "`self` -> `self.held`, a _thread.lock: "),
            (with_default, "a _thread.lock: "),
        ]
        for function, given in cases:
            error = refused(function)
            assert str(error.given).startswith(given)
            assert "open() of a function class" in str(error.hint)


def test_other_steps() -> None:
    lock: Any = threading.Lock()

    class Counting(KeyedProcessFunction[int, int, int]):
        def process_element(self, value: int, context: KeyedProcessContext[int]) -> list[int]:
            with lock:
                return [value]

    class Total(AggregateFunction[int, int, int]):
        def __init__(self) -> None:
            self.lock = lock

        def create_accumulator(self) -> int:
            return 0

        def add(self, value: int, accumulator: int) -> int:
            return value + accumulator

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, a: int, b: int) -> int:
            return a + b

    keyed = from_collection([1]).key_by(lambda number: number)
    for stream, given in (
        (keyed.process(Counting()), "`process_element` -> `lock`, a _thread.lock"),
        (keyed.reduce(lambda a, b: a if lock else b), "`lock`, a _thread.lock"),
        (keyed.count_window(2).aggregate(Total()), "`self.lock`, a _thread.lock"),
    ):
        pipeline = Pipeline("held", stream.sink_to(CollectSink[int]()))
        assert str(refused_step(pipeline.steps[2]).given).startswith(given)

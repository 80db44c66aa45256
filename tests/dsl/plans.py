"""What tests of the language share: streams with timestamps, plans of streams, what is refused, and tables of cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from windrow import DataStream, DataStreamSink, Pipeline, WatermarkStrategy, from_collection
from windrow.errors import Fault, InvalidArgumentError, PlanError
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

__all__ = ["IN_ORDER", "SECOND", "SECONDS", "cases", "fault_of", "faults_of", "in_time", "plan", "refusal"]

T = TypeVar("T")
SECOND = timedelta(seconds=1)
SECONDS = TumblingEventTimeWindows.of(SECOND)
"""Windows of a second."""
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps()


def in_time(elements: Iterable[T], at: Callable[[T], int]) -> DataStream[T]:
    """A stream of elements with timestamps."""
    return from_collection(elements).assign_timestamps_and_watermarks(IN_ORDER, timestamp=at)


# Any in this module: streams of several types.
def plan(*streams: DataStream[Any] | DataStreamSink, name: str = "p") -> Pipeline:
    """A plan of sinks, and of streams that are collected."""
    ends = (stream if isinstance(stream, DataStreamSink) else stream.sink_to(CollectSink()) for stream in streams)
    return Pipeline(name, *ends)


def faults_of(*streams: DataStream[Any] | DataStreamSink) -> list[Fault]:
    """The faults of a plan, which may have none."""
    try:
        plan(*streams)
    except PlanError as error:
        return list(error.faults)
    return []


def fault_of(*streams: DataStream[Any] | DataStreamSink) -> Fault:
    """The only fault of a plan."""
    (fault,) = faults_of(*streams)
    return fault


def refusal(call: Callable[[], object]) -> InvalidArgumentError:
    """The error by which a call refuses an argument."""
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    return caught.value


def cases(table: Mapping[str, Sequence[object]]) -> list[ParameterSet]:
    """A case of each entry of a table, which lists what gives a text below this text."""
    return [
        pytest.param(entry, text, id=text if len(entries) == 1 else f"{text} {number}")
        for text, entries in table.items()
        for number, entry in enumerate(entries, start=1)
    ]

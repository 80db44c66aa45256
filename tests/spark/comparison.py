"""Pipelines that run on both engines, to see that Spark gives what the interpreter gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from windrow import DataStream, DataStreamSink, Pipeline
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner, PipelineResult

__all__ = ["Event", "Outputs", "Seen", "by_key", "key_of", "millis"]

# Any in this module: elements of every type.
T = TypeVar("T")
Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Event:
    """An element.

    Attributes:
        key: The key.
        at: The timestamp in milliseconds.
        value: A number to tell events apart.
    """

    key: str
    at: int
    value: int


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)


class Seen(ProcessWindowFunction[Any, tuple[Any, Any, int, list[Any]], Any, Any]):
    """All that a window function can see: key, window, watermark and contents."""

    def process(
        self, key: Any, context: ProcessWindowContext[Any], elements: Sequence[Any]
    ) -> list[tuple[Any, Any, int, list[Any]]]:
        return [(key, context.window, context.current_watermark, list(elements))]


# Any: keys of every type.
def key_of(element: Any) -> Any:
    """The key of an element that begins with it, or has a field ``key``."""
    return element[0] if isinstance(element, tuple) else element.key


def by_key(elements: Sequence[Any], key: Callable[[Any], Hashable] = key_of) -> dict[Hashable, list[Any]]:
    """The elements by their key, in order: Spark promises the order within a key."""
    found: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for element in elements:
        found[key(element)].append(element)
    return dict(found)


class Outputs:
    """The outputs of one pipeline, each with a sink of its own."""

    def __init__(self) -> None:
        self.sinks: dict[str, CollectSink[Any]] = {}
        self._keys: dict[str, Callable[[Any], Hashable] | None] = {}
        self.ends: list[DataStreamSink] = []

    def add(self, name: str, stream: DataStream[T], key: Callable[[Any], Hashable] | None = key_of) -> None:
        """Take an output.

        Args:
            name: Names it.
            stream: Its elements.
            key: Their key, within which their order is fixed; None: there is no order at all.
        """
        sink = CollectSink[T](name)
        self.sinks[name] = sink
        self._keys[name] = key
        self.ends.append(stream.sink_to(sink))

    def pipeline(self, name: str, *others: DataStreamSink) -> Pipeline:
        return Pipeline(name, *self.ends, *others)

    def of(self, result: PipelineResult) -> dict[str, dict[Hashable, list[Any]]]:
        """What each sink took, by key."""
        return {name: self._arranged(name, result.collected(sink)) for name, sink in self.sinks.items()}

    def expected(self, pipeline: Pipeline) -> tuple[dict[str, dict[Hashable, list[Any]]], Counters]:
        """What the interpreter gives; every output must have something to show."""
        result = LocalRunner().run(pipeline)
        found = self.of(result)
        empty = [name for name, elements in found.items() if not elements]
        assert not empty, f"nothing to compare in {empty}"
        return found, result.counters

    def check(self, run: Callable[[Pipeline], PipelineResult], name: str = "both") -> None:
        """Runs the outputs in the interpreter and by ``run``: they agree, output by output, and in their counters."""
        pipeline = self.pipeline(name)
        expected, counters = self.expected(pipeline)
        result = run(pipeline)
        actual = self.of(result)
        for output, elements in expected.items():
            assert (output, actual[output]) == (output, elements)
        assert result.counters == counters

    def _arranged(self, name: str, elements: list[Any]) -> dict[Hashable, list[Any]]:
        key = self._keys[name]
        if key is not None:
            return by_key(elements, key)
        return {None: sorted(elements, key=repr)} if elements else {}

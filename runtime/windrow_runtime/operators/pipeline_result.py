"""The result of a run: what its sinks collected, and the counters of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from windrow.errors import InvalidArgumentError
from windrow.plan import Pipeline
from windrow.sinks import CollectSink

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class PipelineResult:
    """The result of a run that came to its end.

    Attributes:
        pipeline: What ran.
        counters: The counters of each step, by step id and name: ``late_records_dropped``, ``records_malformed``, and
            those of the user's functions.
    """

    pipeline: Pipeline
    counters: Mapping[str, Mapping[str, int]]
    # Any: elements of every sink side by side, by the identity of the sink.
    _collected: Mapping[int, list[Any]]

    def __repr__(self) -> str:
        collected = sum(map(len, self._collected.values()))
        return f"PipelineResult({self.pipeline.name!r}, {len(self.pipeline.steps)} steps, {collected} collected)"

    def collected(self, sink: CollectSink[T]) -> list[T]:
        """The elements that went to ``sink``, in the order in which they came.

        Raises:
            InvalidArgumentError: If the sink is not part of the pipeline.
        """
        if id(sink) not in self._collected:
            raise InvalidArgumentError(
                "the sink is not part of the pipeline", given=sink.name, expected="a sink given to Pipeline(...)"
            )
        return list(self._collected[id(sink)])

    def counter(self, name: str) -> int:
        """The total of a counter over all steps."""
        return sum(counters.get(name, 0) for counters in self.counters.values())

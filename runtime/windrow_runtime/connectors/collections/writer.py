"""Keeps the elements of sinks for the result of the run."""

from __future__ import annotations

from typing import Any

from windrow.sinks import CollectSink
from windrow_runtime.outputs.writer import SinkWriter

# Any in this module: elements of every type.


class CollectWriter(SinkWriter[CollectSink[Any]]):
    """Leaves the elements to the engine, which keeps them in memory."""

    @property
    def keeps_elements(self) -> bool:
        return True

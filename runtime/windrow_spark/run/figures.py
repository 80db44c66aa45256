"""Asks a streaming query for what Spark alone knows: what waits in the sources, and how long planning took."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from windrow_runtime.metrics.reports import Backlog
from windrow_runtime.operators.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PARTS: Final = {
    "plan": ("latestOffset", "getBatch", "queryPlanning", "walCommit"),
    "commit": ("commitOffsets", "commitBatch"),
}
"""The parts of a batch before and after the sinks, by the names of Spark's times."""


class QueryFigures:
    """Answers exporters and probes, in any thread, from the newest progress of a query."""

    def __init__(self, topology: Topology, is_active: Callable[[], bool]) -> None:
        self._sources = [step.id for step in topology.sources]
        self._is_active = is_active
        self.query: StreamingQuery | None = None  # the one that was started last

    def is_active(self) -> bool:
        """Returns whether the pipeline runs."""
        return self._is_active()

    # Any: Spark's progress is JSON.
    def newest(self) -> Mapping[str, Any] | None:
        """Returns the newest progress of Spark's; None: there is none, or the session was stopped."""
        query = self.query
        if query is None:
            return None
        try:
            progress = query.lastProgress
        except Exception:
            # The type of this error depends on the kind of session, and on what of it is gone.
            return None
        return None if progress is None else json.loads(progress.json)

    def backlog(self) -> Mapping[str, Backlog]:
        """Returns what waits in the sources behind the newest batch, by step id, where Spark was told."""
        progress = self.newest()
        if progress is None or not self.is_active():
            return {}
        # The stream of the control folder comes after those of the sources.
        offsets = [source.get("latestOffset") for source in progress["sources"]][: len(self._sources)]
        reported = zip(self._sources, map(_reported, offsets), strict=False)
        return {step: backlog for step, backlog in reported if backlog is not None}

    def parts_before(self, batch: int) -> Mapping[str, float]:
        """Returns how many seconds Spark took to plan and to commit the batch before; empty if it does not say."""
        progress = self.newest()
        if progress is None or progress["batchId"] != batch - 1 or "addBatch" not in progress["durationMs"]:
            return {}
        times = progress["durationMs"]
        return {part: sum(times.get(name, 0) for name in names) / 1000 for part, names in _PARTS.items()}


def _reported(offset: object) -> Backlog | None:
    """Returns the backlog in a latest offset, as Spark hands it on; None: another source has reported it."""
    value = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(value, dict) or not isinstance(value.get("waiting"), int):
        return None
    return Backlog(value["waiting"], str(value.get("unit")))

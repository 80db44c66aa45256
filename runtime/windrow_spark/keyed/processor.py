"""Defines the stateful processor through which Spark runs one level of keyed steps.

At every start of a query Spark loads the processor in a fresh Python process beside the driver, asks it for its state,
and ends that process. So this module imports nothing of windrow, and the level is unpacked where it runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, TimerValues, ValueState

_PAGE_SCHEMA = StructType([StructField("page", LongType())])
_STATE_SCHEMA = StructType([StructField("data", BinaryType())])


class Calls(Protocol):
    """Answers, in one task, the calls that Spark makes for key groups."""

    def take(self, label: int, timer_values: TimerValues, rows: Iterator[Any]) -> Iterator[Row]:
        """Runs a group that has rows in the batch."""

    def expire(self, label: int, timer_values: TimerValues) -> Iterator[Row]:
        """Runs a group whose timer is due and that got no rows in the batch."""

    def close(self) -> None:
        """Ends the task."""


class Callee(Protocol):
    """What a processor runs in tasks: a level, or what gives a level the state of a savepoint."""

    def calls(self, handle: StatefulProcessorHandle, state: ValueState, pages: MapState) -> Calls:
        """Returns what answers the calls in one task; the states are those of the group for which Spark calls it."""


class KeyGroupProcessor(StatefulProcessor):
    """Gives each key group of a level its elements and its timers.

    Spark makes one for each partition and batch. Within a partition it first hands over the groups that have rows, by
    label, so service groups come first; then it calls the groups whose timer is due.

    A service group passes on the rows for sinks, and knows the watermark of the batch before: the first level stores
    it, and sends it to deeper levels. It matters to elements that timers upstream emit, because they precede the new
    watermark.
    """

    def __init__(self, level: Callee) -> None:
        # Any: Spark's copy of cloudpickle has no types.
        packed: bytes = cloudpickle.dumps(level)  # type: ignore[no-untyped-call]  # for the same reason
        self._packed = packed
        self._given: tuple[StatefulProcessorHandle, ValueState, MapState] | None = None
        self._calls: Calls | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keeps Spark's handle and states. Spark calls this beside the driver too, so the level stays packed here."""
        state = handle.getValueState("group", _STATE_SCHEMA)
        self._given = handle, state, handle.getMapState("pages", _PAGE_SCHEMA, _STATE_SCHEMA)

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[Any],  # of Row; Spark's annotation allows pandas too, which Row mode never gives
        timerValues: TimerValues,  # noqa: N803  Spark's name
    ) -> Iterator[Row]:
        """Runs one group that has rows in the batch."""
        (label,) = key
        yield from self._level_calls().take(label, timerValues, rows)

    def handleExpiredTimer(  # noqa: N802  Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803  Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803  Spark's name
    ) -> Iterator[Row]:
        """Runs one group whose timer is due and that got no rows in the batch."""
        (label,) = key
        yield from self._level_calls().expire(label, timerValues)

    def close(self) -> None:
        """Closes the level. Spark calls this at the end of the task, and beside the driver."""
        if self._calls is not None:
            self._calls.close()
            self._calls = None

    def _level_calls(self) -> Calls:
        if self._calls is None:
            assert self._given is not None, "Spark calls init first"
            level: Callee = pickle.loads(self._packed)
            self._calls = level.calls(*self._given)
        return self._calls

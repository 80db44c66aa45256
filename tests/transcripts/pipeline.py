"""The pipeline of a transcript: one key, and windows that fire panes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.conformance.cases import window_json
from tests.transcripts.checking import Pane
from tests.transcripts.parts import COMBINERS, MODES, millis, trigger_of, windows_of
from windrow import DataStream
from windrow.functions import ProcessWindowContext, ProcessWindowFunction
from windrow.panes import AccumulationMode, Change, OnTimeBehavior, PaneInfo

# Any in this module: values and windows of every type.

Result = tuple[Any, PaneInfo, list[Any]]


class _Panes(ProcessWindowFunction[Any, Result, str, Any]):
    """Gives each pane with its window and its values."""

    def process(self, key: str, context: ProcessWindowContext[Any], elements: Sequence[Any]) -> Iterable[Result]:
        return [(context.window, context.pane, list(elements))]


def transcript_stream(elements: DataStream[Any], case: Mapping[str, Any]) -> DataStream[Change[Result]]:
    """The stream of the panes of a case."""
    keyed = elements.key_by(lambda value: "all", key_type=str)
    assigner = windows_of(case["window_fn"])
    windows = keyed.window(assigner)
    mode = MODES[case.get("accumulation_mode") or case["mode"]]
    windows = windows.trigger(trigger_of(case["trigger"]), may_lose_data=True)
    if mode is AccumulationMode.DISCARDING:
        windows = windows.discarding()
    else:
        windows = windows.retracting() if mode is AccumulationMode.RETRACTING else windows.accumulating()
    if case.get("on_time") == "if_non_empty":
        windows = windows.on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
    windows = windows.timestamp_combiner(COMBINERS[case.get("timestamp_combiner", "end_of_window")])
    if case.get("allowed_lateness") and assigner.is_event_time:
        windows = windows.allowed_lateness(millis(case["allowed_lateness"]))
    return windows.process(_Panes()).changelog()


def pane_of(change: Change[Result], timestamp: int | None) -> Pane:
    """The pane of a result with its timestamp."""
    window, pane, values = change.value
    return Pane(
        window=window_json(window),
        values=sorted(values),
        timestamp=timestamp,
        window_max=window.max_timestamp(),
        timing=pane.timing.name,
        index=pane.index,
        nonspeculative_index=pane.nonspeculative_index,
        first=pane.is_first,
        final=pane.is_last,
        kind=change.kind.value,
    )

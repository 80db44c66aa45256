"""Runs a trigger on its own, without windows around it: the cases about its states."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from tests.transcripts.parts import trigger_of, watermark_of, windows_of
from windrow.time import MIN_TIMESTAMP
from windrow.triggers import MergePartContext, MergingComposableTrigger, PartContext
from windrow.triggers.composable.contract import WHOLE, Part
from windrow.windows import EventTimeSessionWindows, GlobalWindow, TimeWindow, Window
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import WindowEntry
from windrow_runtime.operators.trigger_context import TriggerContextImpl

# Any in this module: what JSON holds, and windows of every kind.


class Stub(MergingComposableTrigger[object, Window]):
    """Is ready when a step says so. Finished when it has fired."""

    def __init__(self) -> None:
        self.ready = False

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return self.ready

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return True

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        return any(finished)


class Machine(KeyedOperator):
    """A trigger and its windows. Windows merge when a step says so."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        super().__init__()
        self._stubs: dict[str, Stub] = {}
        self._assigner = windows_of(case["window_fn"])
        self._whole = Part(trigger_of(case["trigger"], self._stub), WHOLE)
        self._entries: dict[Any, WindowEntry] = {}
        self._active: list[Any] = []
        self._became: dict[Any, Any] = {}
        self._context = TriggerContextImpl(self)
        self.current_processing_time = 0

    def _stub(self, name: str) -> Stub:
        return self._stubs.setdefault(name, Stub())

    def _at(self, window: Any) -> TriggerContextImpl:
        return self._context.at(None, window, self._entries.setdefault(window, WindowEntry()))

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        raise AssertionError("elements are injected")

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        if namespace in self._active:
            self._whole.observe_timer(time, namespace, self._at(namespace), event_time=event_time)

    # Steps

    def step(self, step: Mapping[str, Any]) -> None:
        """Runs a step, or checks what it says."""
        operation = step["op"]
        if operation == "inject":
            for timestamp in step["timestamps"]:
                self._inject(timestamp)
        elif operation == "merge":
            self._merge()
        elif operation == "watermark":
            self.advance_watermark(watermark_of(step["to"]))
        elif operation == "clock":
            self.advance_processing_time(step["to"] if "to" in step else self.current_processing_time + step["advance"])
        elif operation == "stub":
            self._stub(step["id"]).ready = step["ready"]
        else:
            self._about_window(operation, _window(step["window"]), step)

    def _about_window(self, operation: str, window: Any, step: Mapping[str, Any]) -> None:
        ready = self._whole.is_ready(window, self._at(window))
        if operation == "should_fire":
            assert ready is step["is"], f"{step}: {ready}"
        elif operation == "finished":
            finished = self._whole.is_finished(self._at(window))
            assert finished is step["is"], f"{step}: {finished}"
        else:
            assert operation == "fire", f"a step {operation!r} is not known"
            assert ready, f"{step}: not ready"
            if self._whole.fire(window, self._at(window)) and window in self._active:
                self._active.remove(window)

    def _inject(self, timestamp: int) -> None:
        for assigned in self._assigner.assign_windows(timestamp, timestamp, self):
            window = assigned
            while window in self._became:
                window = self._became[window]
            if window not in self._active:
                self._active.append(window)
            self._whole.observe(timestamp, timestamp, window, self._at(window))

    def _merge(self) -> None:
        assert isinstance(self._assigner, EventTimeSessionWindows), "only sessions merge"
        for merge in self._assigner.merge_windows(self._active):
            sources = [window for window in self._active if window in set(merge.sources)]
            if sources == [merge.result]:
                continue
            into = merge.result
            context = self._at(into)
            context.merged = [self._entries[source] for source in sources]
            self._whole.merge(into, context)
            context.merged = []
            for source in sources:
                if source != into:
                    self._became[source] = into
                    self._active.remove(source)
                    del self._entries[source]
            if into not in self._active:
                self._active.append(into)


def _window(written: Any) -> Any:
    return GlobalWindow() if written == "global" else TimeWindow(*written)


def run_machine(case: Mapping[str, Any]) -> None:
    """Runs a case about one trigger."""
    machine = Machine(case)
    assert machine.current_watermark == MIN_TIMESTAMP
    for number, step in enumerate(case["steps"]):
        try:
            machine.step(step)
        except AssertionError as error:
            raise AssertionError(f"step {number}: {error}") from error

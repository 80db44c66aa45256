"""The interpreter, driven by the public harness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from tests.conformance.cases import Json
from tests.conformance.elements import Element, Record
from tests.conformance.engines import ClockStep, ElementStep, Observed, Script, StateCounts, Step, Told, WatermarkStep
from tests.conformance.functions import SIDE, STEP
from tests.conformance.pipeline import LATE, Pipeline
from windrow import from_source
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import Trigger, TriggerContext, TriggerResult
from windrow.windows import GlobalWindow, GlobalWindows
from windrow_runtime.testing import PushSource, StreamHarness

__all__ = ["LocalEngine", "Probe"]


class LocalEngine:
    """Runs scripts in the interpreter; with ``explains``, its steps keep journals."""

    tells_calls = True

    def __init__(self, *, explains: bool = False) -> None:
        self._explains = explains

    def run(self, scripts: Sequence[Script]) -> list[Told]:
        return [_run(script, explains=self._explains) for script in scripts]


def _run(script: Script, *, explains: bool) -> Told:
    try:
        run = LocalRun(script.pipeline, explains=explains)
    except Exception as error:  # whatever is raised is the outcome of the case
        return Told(unbuilt=error)
    try:
        return Told(list(_observed(run, script)))
    finally:
        run.close()


def _observed(run: LocalRun, script: Script) -> Iterator[Observed]:
    for step in script.steps:
        try:
            run.perform(step)
        except Exception as error:  # whatever a step raises is what the case is about
            yield Observed(error=error)
            return
        yield run.observe()


class LocalRun:
    """One script. A second step behind the one under test watches what arrives downstream, and in which order."""

    def __init__(self, pipeline: Pipeline, *, explains: bool) -> None:
        self._calls = pipeline.calls
        self._explains = explains
        self._probe = Probe()
        self._dropped = 0
        source = PushSource(Element)
        start = PushSource(Record)
        stream = pipeline.compute(from_source(source, name="elements")).records
        downstream = (
            stream.union(from_source(start))
            .window_all(GlobalWindows.create())
            .trigger(self._probe)
            .apply(_nothing, name="probe")
        )
        self._harness = StreamHarness(stream, source, also=(downstream,), explains=explains, isolates_functions=False)
        self._harness.process_element(Record("null", "null"), source=start)
        self._probe.take()

    def perform(self, step: Step) -> None:
        match step:
            case ElementStep():
                self._harness.process_element(step.element, step.timestamp)
            case WatermarkStep():
                self._harness.process_watermark(step.timestamp)
            case ClockStep():
                self._harness.set_processing_time(step.timestamp)
            case _:
                self._harness.snapshot_restore()

    def observe(self) -> Observed:
        harness = self._harness
        dropped = harness.counter("late_records_dropped")
        observed = Observed(
            emits=[(record.value, record.timestamp) for record in harness.take_output()],
            late=[(element.value, element.timestamp) for element in harness.take_side_output(LATE)],
            dropped=dropped - self._dropped,
            side=[(value.value, value.timestamp) for value in harness.take_side_output(SIDE)],
            state=self._state(),
            calls=self._take_calls(),
            watermark=self._probe.watermark,
            overtaken=self._probe.take(),
        )
        self._dropped = dropped
        if self._explains:
            # What the next steps show tells whether it has changed anything.
            for each in harness.open_windows():
                assert str(harness.explain_window(each.key, each.window, step=each.step))
        return observed

    def close(self) -> None:
        self._harness.close()

    def _state(self) -> StateCounts:
        harness = self._harness
        return StateCounts(
            contents=sum(_under_test(window.step) for window in harness.open_windows()),
            event_timers=sum(_under_test(timer.step) for timer in harness.event_timers()),
            processing_timers=sum(_under_test(timer.step) for timer in harness.processing_timers()),
        )

    def _take_calls(self) -> dict[str, list[Json]] | None:
        if self._calls is None:
            return None
        return self._calls.take()


def _under_test(step: str) -> bool:
    return step.endswith(f".{STEP}")


def _nothing(window: GlobalWindow, records: object) -> list[None]:
    return []


class Probe(Trigger[Record, GlobalWindow]):
    """Sees each record and each watermark that arrives, since it always waits for the next watermark."""

    def __init__(self) -> None:
        self.watermark = MIN_TIMESTAMP
        self._advanced = False
        self._counted = SimpleNamespace(overtaken=0)

    @property
    def has_advanced(self) -> bool:
        """Whether the watermark has come on since the last call of :meth:`take`."""
        return self._advanced

    def take(self) -> int:
        """How many records came behind a watermark since the last call."""
        overtaken: int = self._counted.overtaken
        self._counted.overtaken, self._advanced = 0, False
        return overtaken

    def on_element(
        self, element: Record, timestamp: int, window: GlobalWindow, context: TriggerContext
    ) -> TriggerResult:
        self._counted.overtaken += self._advanced
        self._await(context)
        return TriggerResult.PURGE

    def on_event_time(self, time: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        self.watermark = context.current_watermark
        self._advanced = True
        self._await(context)
        return TriggerResult.CONTINUE

    def _await(self, context: TriggerContext) -> None:
        if context.current_watermark < MAX_TIMESTAMP:
            context.register_event_time_timer(context.current_watermark + 1)

"""The interpreter, driven by the public harness with a source for each input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from tests.conformance.elements import Element, Record
from tests.conformance.engines import (
    STEP,
    ClockStep,
    ElementStep,
    Observed,
    RestoreStep,
    Script,
    ScriptPipeline,
    StateCounts,
    StatusStep,
    Step,
    Told,
    WatermarkStep,
)
from windrow import from_source
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import Trigger, TriggerContext, TriggerResult
from windrow.windows import GlobalWindow, GlobalWindows
from windrow_runtime.testing import PushSource, StreamHarness


class LocalEngine:
    """Runs scripts in the interpreter; with ``explains``, its steps keep journals."""

    tells_calls = True

    def __init__(self, *, explains: bool = False) -> None:
        self._explains = explains

    def run(self, scripts: Sequence[Script]) -> list[Told]:
        return [_run(script, explains=self._explains) for script in scripts]


def _run(script: Script, *, explains: bool) -> Told:
    try:
        run = _LocalRun(script.pipeline, explains=explains)
    except Exception as error:  # whatever is raised is the outcome of the case
        return Told(unbuilt=error)
    try:
        return Told(list(_observed(run, script)))
    finally:
        run.close()


def _observed(run: _LocalRun, script: Script) -> Iterator[Observed]:
    for step in script.steps:
        try:
            run.perform(step)
        except Exception as error:  # whatever a step raises is what the case is about
            yield Observed(error=error)
            return
        yield run.observe()


class _LocalRun:
    """One script. A second step behind the one under test watches what arrives downstream, and in which order."""

    def __init__(self, pipeline: ScriptPipeline, *, explains: bool) -> None:
        self._pipeline = pipeline
        self._explains = explains and pipeline.inputs == 1
        self._probe = _Probe()
        self._dropped = 0
        self._sources = {side: PushSource(Element) for side in range(1, pipeline.inputs + 1)}
        start = PushSource(Record)
        self._computed = computed = pipeline.compute(
            [from_source(source, name=f"input {side}") for side, source in self._sources.items()]
        )
        downstream = (
            computed.records.union(from_source(start))
            .window_all(GlobalWindows.create())
            .trigger(self._probe)
            .apply(_nothing, name="probe")
        )
        watched = (downstream, *computed.late.values(), *computed.sides.values())
        self._harness = StreamHarness(
            computed.records, self._sources[1], also=watched, explains=explains, isolates_functions=False
        )
        # It is there to wake the probe, which follows the step under test alone.
        self._harness.set_idle(start)
        self._harness.process_element(Record("null", "null"), source=start)
        self._probe.take()

    def perform(self, step: Step) -> None:
        harness = self._harness
        match step:
            case ElementStep():
                harness.process_element(step.element, step.timestamp, source=self._sources[step.side])
            case WatermarkStep():
                harness.process_watermark(step.timestamp, source=self._sources[step.side])
            case StatusStep():
                harness.set_idle(self._sources[step.side], idle=step.is_idle)
            case ClockStep():
                harness.set_processing_time(step.timestamp)
            case RestoreStep():
                # Whether watermarks survive is not tested, but some cases of two inputs take it that those do not.
                harness.snapshot_restore(keeps_source_watermarks=len(self._sources) == 1)

    def observe(self) -> Observed:
        harness, computed, calls = self._harness, self._computed, self._pipeline.calls
        dropped = harness.counter("late_records_dropped")
        observed = Observed(
            emits=[(record.value, record.timestamp) for record in harness.take_output()],
            late=[
                (side, element.value, element.timestamp)
                for side, stream in computed.late.items()
                for element in harness.take(stream)
            ],
            dropped=dropped - self._dropped,
            side=[
                (tag, value.value, value.timestamp)
                for tag, stream in computed.sides.items()
                for value in harness.take(stream)
            ],
            state=self._state() if self._pipeline.inputs == 1 else None,
            calls=None if calls is None else calls.take(),
            watermark=self._probe.watermark,
            advanced=self._probe.has_advanced,
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


def _under_test(step: str) -> bool:
    return step.endswith(f".{STEP}")


def _nothing(window: GlobalWindow, records: object) -> list[None]:
    return []


class _Probe(Trigger[Record, GlobalWindow]):
    """Sees each record and each watermark that arrives, since it always waits for the next watermark."""

    def __init__(self) -> None:
        self.watermark = MIN_TIMESTAMP
        self.has_advanced = False
        """Whether the watermark has come on since the last call of :meth:`take`."""
        self._counted = SimpleNamespace(overtaken=0)

    def take(self) -> int:
        """How many records came behind a watermark since the last call."""
        overtaken: int = self._counted.overtaken
        self._counted.overtaken, self.has_advanced = 0, False
        return overtaken

    def on_element(
        self, element: Record, timestamp: int, window: GlobalWindow, context: TriggerContext
    ) -> TriggerResult:
        self._counted.overtaken += self.has_advanced
        self._await(context)
        return TriggerResult.PURGE

    def on_event_time(self, time: int, window: GlobalWindow, context: TriggerContext) -> TriggerResult:
        self.watermark = context.current_watermark
        self.has_advanced = True
        self._await(context)
        return TriggerResult.CONTINUE

    def _await(self, context: TriggerContext) -> None:
        if context.current_watermark < MAX_TIMESTAMP:
            context.register_event_time_timer(context.current_watermark + 1)

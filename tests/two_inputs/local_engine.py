"""The interpreter, driven by the public harness with a source for each input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.conformance.cases import Case
from tests.conformance.elements import Element, Record
from tests.conformance.engines import ClockStep, RestoreStep
from tests.conformance.local_engine import Probe
from tests.two_inputs.engines import ElementOf, Observed, Script, StatusOf, Step, Told, WatermarkOf
from tests.two_inputs.pipelines import TwoInputs
from windrow import from_source
from windrow.windows import GlobalWindow, GlobalWindows
from windrow_runtime.testing import PushSource, StreamHarness

__all__ = ["LocalEngine"]


class LocalEngine:
    """Runs scripts in the interpreter; with ``explains``, its steps keep journals."""

    def __init__(self, *, explains: bool = False) -> None:
        self._explains = explains

    def why_skipped(self, case: Case) -> str | None:
        return None

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

    def __init__(self, pipeline: TwoInputs, *, explains: bool) -> None:
        self._probe = Probe()
        self._dropped = 0
        self._sources = {1: PushSource(Element), 2: PushSource(Element)}
        start = PushSource(Record)
        left, right = (from_source(source, name=f"input {side}") for side, source in self._sources.items())
        self._computed = computed = pipeline.compute(left, right)
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
            case ElementOf():
                harness.process_element(step.element, step.timestamp, source=self._sources[step.side])
            case WatermarkOf():
                harness.process_watermark(step.timestamp, source=self._sources[step.side])
            case StatusOf(side, is_idle):
                harness.set_idle(self._sources[side], idle=is_idle)
            case ClockStep():
                harness.set_processing_time(step.timestamp)
            case RestoreStep():
                # Whether watermarks survive is not tested, but some cases take it that those of inputs do not.
                harness.snapshot_restore(keeps_source_watermarks=False)

    def observe(self) -> Observed:
        harness, computed = self._harness, self._computed
        dropped = harness.counter("late_records_dropped")
        advanced = self._probe.has_advanced
        observed = Observed(
            emits=[(record.value, record.timestamp) for record in harness.take_output()],
            late=[
                (side, element.value, element.timestamp)
                for side, stream in computed.late.items()
                for element in harness.take(stream)
            ],
            side=[
                (tag, value.value, value.timestamp)
                for tag, stream in computed.sides.items()
                for value in harness.take(stream)
            ],
            dropped=dropped - self._dropped,
            watermark=self._probe.watermark if advanced else None,
            overtaken=self._probe.take(),
        )
        self._dropped = dropped
        return observed

    def close(self) -> None:
        self._harness.close()


def _nothing(window: GlobalWindow, records: object) -> list[None]:
    return []

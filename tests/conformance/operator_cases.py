"""Cases that an engine runs step by step, and those of kind "operator": a pipeline with one input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences, error_kind
from tests.conformance.elements import Element
from tests.conformance.engines import (
    ClockStep,
    ElementStep,
    Observed,
    RestoreStep,
    Script,
    ScriptPipeline,
    Step,
    Told,
    WatermarkStep,
)
from tests.conformance.pipeline import Pipeline
from tests.conformance.triggers import TimerScript
from windrow.errors import MissingTimestampError, PlanError

_SCRIPTED = ("windows", "merges", "trigger")


@dataclass(frozen=True)
class ReadStep:
    """A step with what it is expected to cause; ``title`` names it in messages."""

    title: str
    expect: Fields
    watermark: int | None  # downstream
    error: str | None  # why it is expected to fail


@dataclass(frozen=True)
class RunCase:
    """A case that an engine runs, read."""

    script: Script
    steps: Sequence[ReadStep]


CompareStep: TypeAlias = Callable[[ScriptPipeline, ReadStep, Observed, Differences], None]
"""Compares what a step caused with what it is expected to cause."""


def read_operator(case: Case, *, note_calls: bool) -> RunCase:
    """Read a case of this kind; the calls of its trigger are noted where it asks for them, if ``note_calls``."""
    steps = case.body.all_fields("steps")
    pipeline = Pipeline.of(
        case.body.fields("pipeline"),
        note_calls=note_calls and any("calls" in step.fields("expect") for step in steps if "expect" in step),
    )
    case.body.done()
    return RunCase(*read_steps(pipeline, steps, lambda step: _step(pipeline, step)))


def read_steps(
    pipeline: ScriptPipeline, steps: Sequence[Fields], step_of: Callable[[Fields], Step]
) -> tuple[Script, list[ReadStep]]:
    """The steps of a case as an engine runs them, and with what each is expected to cause."""
    read: list[ReadStep] = []
    script: list[Step] = []
    for number, step in enumerate(steps, start=1):
        expect = step.fields_or_none("expect") or Fields({}, "expect")
        watermark = step.integer_or_none("expect_watermark")
        error = expect.text("error", "none")
        read.append(ReadStep(f"step {number}, {_title(step)}", expect, watermark, None if error == "none" else error))
        script.append(step_of(step))
    return Script(pipeline, tuple(script), any(step.error is not None for step in read)), read


def compare_run(
    case: RunCase, told: Told, differences: Differences, compare_step: CompareStep, missing_timestamp: str | None
) -> None:
    """Compare what an engine tells of a case with what the case expects.

    ``missing_timestamp`` is the kind of error by which cases name a missing timestamp; None: they have no such kind.

    Raises:
        CaseError: If the engine came upon something that is not understood.
        Exception: Why the pipeline could not be built.
    """
    if told.unbuilt is not None:
        # A plan in which elements without timestamps may come to a step that needs them is refused before it runs.
        needs_timestamps = isinstance(told.unbuilt, PlanError) and "needs timestamps" in str(told.unbuilt)
        if needs_timestamps and missing_timestamp in {step.error for step in case.steps} - {None}:
            return
        raise told.unbuilt
    dropped = 0
    for step, observed in zip(case.steps, told.steps, strict=False):
        if observed.error is not None:
            _compare_error(step, observed.error, differences, missing_timestamp)
            break
        if step.error is not None:
            differences.add(f"{step.title}: error", step.error, "none")
        dropped += step.expect.integer("dropped", 0)
        if observed.dropped is not None:
            differences.equal(f"{step.title}: dropped", step.expect.integer("dropped", 0), observed.dropped)
        compare_step(case.script.pipeline, step, observed, differences)
        step.expect.done()
    else:
        differences.equal("steps that ran", len(case.steps), len(told.steps))
    if told.dropped is not None:
        differences.equal("dropped in all steps", dropped, told.dropped)


def _compare_error(step: ReadStep, error: Exception, differences: Differences, missing_timestamp: str | None) -> None:
    for cause in (error, error.__cause__):
        if isinstance(cause, CaseError):
            raise cause
    # An operation that needs a key where there is none is an unsupported one for windrow.
    wanted = "unsupported_operation" if step.error == "no_key" else step.error or "none"
    is_missing = missing_timestamp is not None and isinstance(error, MissingTimestampError)
    if wanted != (missing_timestamp if is_missing else error_kind(error)):
        differences.add(f"{step.title}: error", step.error or "none", f"{error_kind(error)}: {error}")


def _title(step: Fields) -> str:
    op = step.text("op")
    return f"{op} at {step.data['ts']}" if "ts" in step.data else op


def _step(pipeline: Pipeline, step: Fields) -> Step:
    op = step.text("op")
    found: Step
    match op:
        case "element":
            found = _element(pipeline, step)
        case "snapshot_restore":
            found = RestoreStep()
        case "watermark":
            found = WatermarkStep(step.integer("ts"))
        case "processing_time":
            found = ClockStep(step.integer("ts"))
        case _:
            raise CaseError(f"unknown op {op!r}")
    step.done()
    return found


def _element(pipeline: Pipeline, step: Fields) -> ElementStep:
    trigger = step.fields_or_none("trigger")
    if trigger is not None:
        TimerScript.of(trigger)
    script: dict[str, Json] = {part: step.raw(part) for part in _SCRIPTED if part in step}
    key = step.raw("key") if pipeline.keyed else None
    return ElementStep(Element.of(key, step.raw("value"), script), step.integer_or_none("ts"))


def compare_window_step(pipeline: ScriptPipeline, step: ReadStep, observed: Observed, differences: Differences) -> None:
    """Compare what a step of a case with windows caused."""
    assert isinstance(pipeline, Pipeline)
    where, expect = step.title, step.expect
    with_window = pipeline.function.flag("with_window", False)
    emits = [
        _json(pipeline, record.key, record.value, timestamp, record.window if with_window else None)
        for record, timestamp in observed.emits
    ]
    late = [_json(pipeline, element.key, element.value, timestamp, None) for _, element, timestamp in observed.late]
    side: list[Json] = [{"value": decode(value), "ts": timestamp} for _, value, timestamp in observed.side]
    differences.same_items(f"{where}: emits", expect.items("emits", []), emits)
    differences.same_items(f"{where}: late", expect.items("late", []), late)
    differences.same_items(f"{where}: side", expect.items("side", []), side)
    _compare_state(expect.fields_or_none("state"), observed, where, differences)
    _compare_calls(expect.fields_or_none("calls"), observed, where, differences)
    if step.watermark is not None:
        differences.equal(f"{where}: watermark downstream", step.watermark, observed.watermark)
        differences.equal(f"{where}: records behind the watermark", 0, observed.overtaken)


def _json(pipeline: Pipeline, key: str, value: str, timestamp: int | None, window: str | None) -> Json:
    record: dict[str, Json] = {"value": decode(value), "ts": timestamp}
    if pipeline.keyed:
        record["key"] = decode(key)
    if window is not None:
        record["window"] = decode(window)
    return record


def _compare_state(state: Fields | None, observed: Observed, where: str, differences: Differences) -> None:
    if state is None or observed.state is None:
        return
    for name, got in vars(observed.state).items():
        if name in state:
            differences.equal(f"{where}: {name}", state.integer(name), got)
    state.done()


def _compare_calls(calls: Fields | None, observed: Observed, where: str, differences: Differences) -> None:
    if calls is None or observed.calls is None:
        return
    for name, got in observed.calls.items():
        if name in calls:
            differences.same_items(f"{where}: calls of {name}", calls.items(name), got)
    calls.done()

"""Cases of kind "operator": a whole pipeline, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.engines import ClockStep, ElementStep, Observed, RestoreStep, Script, Step, Told, WatermarkStep
from tests.conformance.errors import error_kind
from tests.conformance.pipeline import Pipeline
from tests.conformance.triggers import TimerScript

__all__ = ["OperatorCase", "compare_operator", "read_operator"]

_SCRIPTED = ("windows", "merges", "trigger")


@dataclass(frozen=True)
class OperatorCase:
    """A case of this kind, read.

    Attributes:
        script: What an engine is to run.
        steps: The steps, with what each is expected to cause.
    """

    script: Script
    steps: Sequence[_ReadStep]


@dataclass(frozen=True)
class _ReadStep:
    title: str
    expect: Fields
    watermark: int | None


def read_operator(case: Case, *, note_calls: bool) -> OperatorCase:
    """Read a case of this kind.

    Args:
        case: The case.
        note_calls: Whether the calls of its trigger are noted where it asks for them.

    Raises:
        CaseError: If something in it is not understood.
        InvalidArgumentError: If a part of the pipeline is refused.
    """
    steps = case.body.all_fields("steps")
    pipeline = Pipeline.of(
        case.body.fields("pipeline"),
        note_calls=note_calls and any("calls" in step.fields("expect") for step in steps if "expect" in step),
    )
    case.body.done()
    read: list[_ReadStep] = []
    script: list[Step] = []
    for number, step in enumerate(steps, start=1):
        expect = step.fields_or_none("expect") or Fields({}, "expect")
        watermark = step.integer_or_none("expect_watermark")
        read.append(_ReadStep(f"step {number}, {_title(step)}", expect, watermark))
        script.append(_step(pipeline, step))
    may_fail = any(step.expect.text("error", "none") != "none" for step in read)
    return OperatorCase(Script(pipeline, tuple(script), may_fail), read)


def compare_operator(case: OperatorCase, told: Told, differences: Differences) -> None:
    """Compare what an engine tells of a case with what the case expects.

    Raises:
        CaseError: If the engine came upon something that is not understood.
        Exception: Why the pipeline could not be built.
    """
    if told.unbuilt is not None:
        raise told.unbuilt
    dropped = 0
    for step, observed in zip(case.steps, told.steps, strict=False):
        error = step.expect.text("error", "none")
        if observed.error is not None:
            if isinstance(observed.error, CaseError):
                raise observed.error
            got = error_kind(observed.error)
            if got != error:
                differences.add(f"{step.title}: error", error, f"{got}: {observed.error}")
            break
        if error != "none":
            differences.add(f"{step.title}: error", error, "none")
        dropped += step.expect.integer("dropped", 0)
        _compare(case.script.pipeline, step, observed, differences)
        step.expect.done()
    else:
        differences.equal("steps that ran", len(case.steps), len(told.steps))
    if told.dropped is not None:
        differences.equal("dropped in all steps", dropped, told.dropped)


def _title(step: Fields) -> str:
    op = step.text("op")
    return op if op == "snapshot_restore" else f"{op} at {step.data.get('ts')}"


def _step(pipeline: Pipeline, step: Fields) -> Step:
    op = step.text("op")
    found: Step
    if op == "element":
        found = ElementStep(*_element(pipeline, step))
    elif op == "snapshot_restore":
        found = RestoreStep()
    elif op == "watermark":
        found = WatermarkStep(step.integer("ts"))
    elif op == "processing_time":
        found = ClockStep(step.integer("ts"))
    else:
        raise CaseError(f"unknown op {op!r}")
    step.done()
    return found


def _element(pipeline: Pipeline, step: Fields) -> tuple[Element, int | None]:
    trigger = step.fields_or_none("trigger")
    if trigger is not None:
        TimerScript.of(trigger)
    script: dict[str, Json] = {part: step.raw(part) for part in _SCRIPTED if part in step}
    key = step.raw("key") if pipeline.keyed else None
    return Element.of(key, step.raw("value"), script), step.integer_or_none("ts")


def _compare(pipeline: Pipeline, step: _ReadStep, observed: Observed, differences: Differences) -> None:
    where, expect = step.title, step.expect
    with_window = pipeline.function.flag("with_window", False)
    emits = [
        _json(pipeline, record.key, record.value, timestamp, record.window if with_window else None)
        for record, timestamp in observed.emits
    ]
    late = [_json(pipeline, element.key, element.value, timestamp, None) for element, timestamp in observed.late]
    side: list[Json] = [{"value": decode(value), "ts": timestamp} for value, timestamp in observed.side]
    differences.same_items(f"{where}: emits", expect.items("emits", []), emits)
    differences.same_items(f"{where}: late", expect.items("late", []), late)
    if observed.dropped is not None:
        differences.equal(f"{where}: dropped", expect.integer("dropped", 0), observed.dropped)
    differences.same_items(f"{where}: side", expect.items("side", []), side)
    _compare_state(expect.fields_or_none("state"), observed, where, differences)
    _compare_calls(expect.fields_or_none("calls"), observed, where, differences)
    if step.watermark is not None and observed.watermark is not None:
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

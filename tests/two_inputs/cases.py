"""Cases of two inputs that an engine runs, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.engines import ClockStep, RestoreStep
from tests.conformance.errors import error_kind
from tests.two_inputs.engines import ElementOf, Observed, Script, StatusOf, Step, Told, WatermarkOf
from tests.two_inputs.pipelines import KINDS, TwoInputs
from windrow.errors import MissingTimestampError, PlanError
from windrow.time import MIN_TIMESTAMP

__all__ = ["RunCase", "compare", "read", "reason"]

_REASONS = ("missing_timestamp", "no_key", "invalid_argument", "unsupported_operation")


@dataclass(frozen=True)
class RunCase:
    """A case that an engine runs, read.

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
    error: str | None


def read(case: Case) -> RunCase:
    """Read a case.

    Raises:
        CaseError: If something in it is not understood.
        InvalidArgumentError: If a part of the pipeline is refused.
    """
    steps = case.body.all_fields("steps")
    fields = case.body.fields("pipeline")
    case.body.done()
    pipeline: TwoInputs = KINDS[case.kind](fields)
    fields.done()
    found: list[_ReadStep] = []
    script: list[Step] = []
    for number, step in enumerate(steps, start=1):
        expect = step.fields_or_none("expect") or Fields({}, "expect")
        watermark = step.integer_or_none("expect_watermark")
        # The status that a step hands on shows in nothing but the watermarks behind it.
        step.text("expect_status", "")
        error = expect.text("error", "") or None
        if error is not None and (error not in _REASONS or number < len(steps)):
            raise CaseError(f"step {number}: an error is one of {', '.join(_REASONS)}, in the last step")
        found.append(_ReadStep(f"step {number}, {_title(step)}", expect, watermark, error))
        script.append(_step(pipeline, step))
    may_fail = any(step.error is not None for step in found)
    return RunCase(Script(pipeline, tuple(script), may_fail), found)


def _title(step: Fields) -> str:
    op = step.text("op")
    return f"{op} at {step.data['ts']}" if "ts" in step.data else op


def _step(pipeline: TwoInputs, step: Fields) -> Step:
    op = step.text("op")
    side = int(op[-1]) if op[-1] in "12" else 0
    found: Step
    match op.rstrip("12") if side else op:
        case "element" if side:
            key = step.raw("key") if pipeline.keyed[side - 1] else None
            found = ElementOf(side, Element.of(key, step.raw("value")), step.integer_or_none("ts"))
        case "watermark" if side:
            found = WatermarkOf(side, step.integer("ts"))
        case ("idle" | "active") as status if side:
            found = StatusOf(side, status == "idle")
        case "processing_time" if not side:
            found = ClockStep(step.integer("ts"))
        case "snapshot_restore" if not side:
            found = RestoreStep()
        case _:
            raise CaseError(f"unknown op {op!r}")
    step.done()
    return found


def reason(error: Exception) -> str:
    """How the format names an error; the name of its class where it has no name for it."""
    return "missing_timestamp" if isinstance(error, MissingTimestampError) else error_kind(error)


def compare(case: RunCase, told: Told, differences: Differences) -> None:
    """Compare what an engine tells of a case with what the case expects.

    Raises:
        CaseError: If the engine came upon something that is not understood.
        Exception: Why the pipeline could not be built.
    """
    if told.unbuilt is not None:
        # A plan in which elements without timestamps may come to a step that needs them is refused before it runs.
        needs_timestamps = isinstance(told.unbuilt, PlanError) and "needs timestamps" in str(told.unbuilt)
        if needs_timestamps and any(step.error == "missing_timestamp" for step in case.steps):
            return
        raise told.unbuilt
    dropped = 0
    for step, observed in zip(case.steps, told.steps, strict=False):
        if observed.error is not None:
            _compare_error(step, observed.error, differences)
            break
        if step.error is not None:
            differences.add(f"{step.title}: error", step.error, "none")
        dropped += step.expect.integer("dropped", 0)
        _compare(case.script.pipeline, step, observed, differences)
        step.expect.done()
    else:
        differences.equal("steps that ran", len(case.steps), len(told.steps))
    if told.dropped is not None:
        differences.equal("dropped in all steps", dropped, told.dropped)


def _compare_error(step: _ReadStep, error: Exception, differences: Differences) -> None:
    for cause in (error, error.__cause__):
        if isinstance(cause, CaseError):
            raise cause
    # An operation that needs a key where there is none is an unsupported one for windrow.
    wanted = "unsupported_operation" if step.error == "no_key" else step.error
    if reason(error) != wanted:
        differences.add(f"{step.title}: error", step.error or "none", f"{reason(error)}: {error}")


def _compare(pipeline: TwoInputs, step: _ReadStep, observed: Observed, differences: Differences) -> None:
    where, expect = step.title, step.expect
    emits = [
        _record(pipeline, decode(record.key), decode(record.value), timestamp) for record, timestamp in observed.emits
    ]
    late: list[Json] = [
        {"input": side, "key": decode(element.key), "value": decode(element.value), "ts": timestamp}
        for side, element, timestamp in observed.late
    ]
    side: list[Json] = [
        {"tag": tag, "value": decode(value), "ts": _stamp(timestamp)} for tag, value, timestamp in observed.side
    ]
    wanted = [_wanted(pipeline, record) for record in expect.all_fields("emits", [])]
    differences.same_items(f"{where}: emits", wanted, emits)
    differences.same_items(f"{where}: late", expect.items("late", []), late)
    if observed.dropped is not None:
        differences.equal(f"{where}: dropped", expect.integer("dropped", 0), observed.dropped)
    wanted = [_with_stamp(item) for item in expect.all_fields("side", [])]
    differences.same_items(f"{where}: side", wanted, side)
    differences.equal(f"{where}: watermark downstream", step.watermark, observed.watermark)
    differences.equal(f"{where}: records behind the watermark", 0, observed.overtaken)


def _wanted(pipeline: TwoInputs, record: Fields) -> Json:
    key = record.raw("key") if pipeline.has_key else None
    found = _record(pipeline, key, record.raw("value"), record.integer_or_none("ts"))
    record.done()
    return found


def _record(pipeline: TwoInputs, key: Json, value: Json, timestamp: int | None) -> Json:
    record: dict[str, Json] = {"value": pipeline.plain(value), "ts": timestamp}
    if pipeline.has_key:
        record["key"] = key
    return record


def _with_stamp(item: Fields) -> Json:
    found: Json = {"tag": item.text("tag"), "value": item.raw("value"), "ts": _stamp(item.integer_or_none("ts"))}
    item.done()
    return found


def _stamp(timestamp: int | None) -> int | None:
    """The timestamp of something in a side output, where the lowest one stands for none."""
    return None if timestamp == MIN_TIMESTAMP else timestamp

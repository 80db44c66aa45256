"""Cases of two inputs that an engine runs, step by step."""

from __future__ import annotations

from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.engines import (
    ClockStep,
    ElementStep,
    Observed,
    RestoreStep,
    ScriptPipeline,
    StatusStep,
    Step,
    WatermarkStep,
)
from tests.conformance.operator_cases import ReadStep, RunCase, read_steps
from tests.two_inputs.pipelines import KINDS, TwoInputs
from windrow.time import MIN_TIMESTAMP

__all__ = ["compare", "read"]

_REASONS = ("missing_timestamp", "no_key", "invalid_argument", "unsupported_operation")


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
    script, found = read_steps(pipeline, steps, lambda step: _step(pipeline, step))
    for number, step in enumerate(found, start=1):
        if step.error is not None and (step.error not in _REASONS or number < len(steps)):
            raise CaseError(f"step {number}: an error is one of {', '.join(_REASONS)}, in the last step")
    return RunCase(script, found)


def _step(pipeline: TwoInputs, step: Fields) -> Step:
    op = step.text("op")
    # The status that a step hands on shows in nothing but the watermarks behind it.
    step.text("expect_status", "")
    side = int(op[-1]) if op[-1] in "12" else 0
    found: Step
    match op.rstrip("12") if side else op:
        case "element" if side:
            key = step.raw("key") if pipeline.keyed[side - 1] else None
            found = ElementStep(Element.of(key, step.raw("value")), step.integer_or_none("ts"), side)
        case "watermark" if side:
            found = WatermarkStep(step.integer("ts"), side)
        case ("idle" | "active") as status if side:
            found = StatusStep(side, status == "idle")
        case "processing_time" if not side:
            found = ClockStep(step.integer("ts"))
        case "snapshot_restore" if not side:
            found = RestoreStep()
        case _:
            raise CaseError(f"unknown op {op!r}")
    step.done()
    return found


def compare(pipeline: ScriptPipeline, step: ReadStep, observed: Observed, differences: Differences) -> None:
    """Compare what a step caused with what it is expected to cause."""
    assert isinstance(pipeline, TwoInputs)
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
    wanted = [_with_stamp(item) for item in expect.all_fields("side", [])]
    differences.same_items(f"{where}: side", wanted, side)
    watermark = observed.watermark if observed.advanced else None
    differences.equal(f"{where}: watermark downstream", step.watermark, watermark)
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

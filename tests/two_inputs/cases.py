"""Cases of two inputs that an engine runs, step by step."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance import runner
from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.engines import (
    ClockStep,
    ElementStep,
    Engine,
    Observed,
    RestoreStep,
    ScriptPipeline,
    StatusStep,
    Step,
    WatermarkStep,
)
from tests.conformance.operator_cases import ReadStep, RunCase, read_steps
from tests.two_inputs.invalid import run_invalid
from tests.two_inputs.pipelines import KINDS, TwoInputs
from windrow.time import MIN_TIMESTAMP

_REASONS = ("missing_timestamp", "no_key", "invalid_argument", "unsupported_operation")


def read(case: Case) -> RunCase:
    """Read a case."""
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


_PART = "it tests what can be built, which is the same for all engines; --engine local runs it"
_CLOCK = (
    "an input falls silent there when the clock goes on without it, and the case sets the clock itself; "
    "--engine local runs it"
)


def _why_not_in_batches(case: Case) -> str | None:
    if case.kind == "invalid":
        return _PART
    steps = case.body.items("steps", [])
    ops = {step.get("op") for step in steps if isinstance(step, dict)}
    return _CLOCK if "processing_time" in ops and ops & {"idle1", "idle2"} else None


_TWO_INPUTS = runner.Language(
    {"invalid": run_invalid}, KINDS, lambda case, _: read(case), compare, _why_not_in_batches, "missing_timestamp"
)


def run_cases(cases: Sequence[Case], engine: Engine) -> list[runner.Outcome]:
    """Run cases as :func:`tests.conformance.runner.run_cases` does."""
    return runner.run_cases(cases, engine, _TWO_INPUTS)

"""Cases of kind "operator": a whole pipeline, step by step."""

from __future__ import annotations

from tests.conformance.cases import Case, CaseError, Fields, Json, decode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.engines import Engine, Observed, Run
from tests.conformance.errors import error_kind
from tests.conformance.pipeline import Pipeline
from tests.conformance.triggers import TimerScript

__all__ = ["run_operator"]

_SCRIPTED = ("windows", "merges", "trigger")


def run_operator(case: Case, engine: Engine, differences: Differences) -> None:
    """Run a case of this kind."""
    steps = case.body.all_fields("steps")
    pipeline = Pipeline.of(
        case.body.fields("pipeline"),
        note_calls=any("calls" in step.fields("expect") for step in steps if "expect" in step),
    )
    case.body.done()
    run = engine.open(pipeline)
    try:
        for number, step in enumerate(steps, start=1):
            where = f"step {number}, {_title(step)}"
            if not _step(pipeline, run, step, where, differences):
                break
    finally:
        run.close()


def _title(step: Fields) -> str:
    op = step.text("op")
    return op if op == "snapshot_restore" else f"{op} at {step.data.get('ts')}"


def _step(pipeline: Pipeline, run: Run, step: Fields, where: str, differences: Differences) -> bool:
    """Run one step; whether the case goes on."""
    expect = step.fields_or_none("expect") or Fields({}, "expect")
    error = expect.text("error", "none")
    watermark = step.integer_or_none("expect_watermark")
    try:
        _perform(pipeline, run, step)
    except CaseError:
        raise
    except Exception as raised:  # whatever a step raises is what the case is about
        got = error_kind(raised)
        if got != error:
            differences.add(f"{where}: error", error, f"{got}: {raised}")
        return False
    if error != "none":
        differences.add(f"{where}: error", error, "none")
    _compare(pipeline, expect, run.observe(), watermark, where, differences)
    expect.done()
    return True


def _perform(pipeline: Pipeline, run: Run, step: Fields) -> None:
    op = step.text("op")
    if op == "element":
        element, timestamp = _element(pipeline, step)
        step.done()
        run.element(element, timestamp)
        return
    if op == "snapshot_restore":
        step.done()
        run.snapshot_restore()
        return
    if op not in ("watermark", "processing_time"):
        raise CaseError(f"unknown op {op!r}")
    timestamp = step.integer("ts")
    step.done()
    if op == "watermark":
        run.watermark(timestamp)
    else:
        run.processing_time(timestamp)


def _element(pipeline: Pipeline, step: Fields) -> tuple[Element, int | None]:
    trigger = step.fields_or_none("trigger")
    if trigger is not None:
        TimerScript.of(trigger)
    script: dict[str, Json] = {part: step.raw(part) for part in _SCRIPTED if part in step}
    key = step.raw("key") if pipeline.keyed else None
    return Element.of(key, step.raw("value"), script), step.integer_or_none("ts")


def _compare(
    pipeline: Pipeline,
    expect: Fields,
    observed: Observed,
    watermark: int | None,
    where: str,
    differences: Differences,
) -> None:
    with_window = pipeline.function.flag("with_window", False)
    emits = [
        _json(pipeline, record.key, record.value, timestamp, record.window if with_window else None)
        for record, timestamp in observed.emits
    ]
    late = [
        _json(pipeline, element.key, element.value, timestamp, None) for element, timestamp in observed.late
    ]
    side: list[Json] = [{"value": decode(value), "ts": timestamp} for value, timestamp in observed.side]
    differences.same_items(f"{where}: emits", expect.items("emits", []), emits)
    differences.same_items(f"{where}: late", expect.items("late", []), late)
    differences.equal(f"{where}: dropped", expect.integer("dropped", 0), observed.dropped)
    differences.same_items(f"{where}: side", expect.items("side", []), side)
    _compare_state(expect.fields_or_none("state"), observed, where, differences)
    _compare_calls(expect.fields_or_none("calls"), observed, where, differences)
    if watermark is not None and observed.watermark is not None:
        differences.equal(f"{where}: watermark downstream", watermark, observed.watermark)
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

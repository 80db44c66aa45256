"""Cases of kind "trigger": one trigger on its own."""

from __future__ import annotations

from typing import Any

from tests.conformance.cases import AnyWindow, Case, CaseError, Fields, Json, window_json
from tests.conformance.compare import Differences
from tests.conformance.elements import Element
from tests.conformance.triggers import TimerScript, build_trigger, result_name
from windrow_runtime.testing import TriggerAnswer, TriggerHarness


# Any in this module: one harness takes windows of every type.
def run_trigger(case: Case, differences: Differences) -> None:
    """Run a case of this kind."""
    harness: TriggerHarness[Element, Any] = TriggerHarness(build_trigger(case.body.fields("trigger")))
    steps = case.body.all_fields("steps")
    case.body.done()
    for number, step in enumerate(steps, start=1):
        expect = step.fields_or_none("expect") or Fields({}, "expect")
        where = f"step {number}, {step.text('op')}"
        result, answers = _perform(harness, step)
        step.done()
        _compare(harness, expect, result, answers, where, differences)
        expect.done()


def _perform(harness: TriggerHarness[Element, Any], step: Fields) -> tuple[str | None, list[TriggerAnswer[Any]]]:
    op = step.text("op")
    if op == "element":
        element = _element(step)
        result = harness.process_element(element, step.integer_or_none("ts"), step.window("window"))
        return result_name(result), []
    if op == "watermark":
        return None, harness.process_watermark(step.integer("ts"))
    if op == "processing_time":
        return None, harness.set_processing_time(step.integer("ts"))
    if op == "merge":
        sources: list[AnyWindow] = step.windows("from")
        into = step.window("into")
        harness.merge(sources, into)
        # The harness spares the window that came of the merge; the format clears each of `from`.
        if into in sources:
            harness.clear(into)
        return None, []
    if op == "clear":
        harness.clear(step.window("window"))
        return None, []
    if op == "call_on_event_time":
        harness.call_on_event_time(step.integer("ts"), step.window("window"))
        return None, []
    raise CaseError(f"unknown op {op!r}")


def _element(step: Fields) -> Element:
    script: dict[str, Json] = {}
    if "trigger" in step:
        TimerScript.of(step.fields("trigger"))
        script["trigger"] = step.raw("trigger")
    return Element.of(None, step.raw("value") if "value" in step else None, script)


def _compare(
    harness: TriggerHarness[Element, Any],
    expect: Fields,
    result: str | None,
    answers: list[TriggerAnswer[Any]],
    where: str,
    differences: Differences,
) -> None:
    if "result" in expect:
        differences.equal(f"{where}: result", expect.text("result"), result)
    if "fired" in expect:
        fired: list[Json] = [[window_json(answer.window), result_name(answer.result)] for answer in answers]
        differences.same_items(f"{where}: fired", expect.items("fired"), fired)
    if "fires_in" in expect:
        windows = [window_json(answer.window) for answer in answers if answer.result.is_fire]
        differences.same_set(f"{where}: fires_in", expect.items("fires_in"), windows)
    if "state_windows" in expect:
        keeping = [window_json(window) for window in harness.state_windows]
        differences.same_set(f"{where}: state_windows", expect.items("state_windows"), keeping)
    timers = expect.fields_or_none("timers")
    if timers is not None:
        for domain, pending in (("event", harness.event_timers), ("processing", harness.processing_timers)):
            if domain in timers:
                got: list[Json] = [[window_json(window), time] for window, time in pending]
                differences.same_items(f"{where}: {domain} timers", timers.items(domain), got)
        timers.done()

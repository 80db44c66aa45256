"""Triggers from JSON, the scripted one, and one that notes its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.assigners import millis
from tests.conformance.cases import AnyWindow, CaseError, Fields, Json, window_json
from tests.conformance.elements import Element, number
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EndOfStreamTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    MergingTrigger,
    NeverTrigger,
    OnMergeContext,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerContext,
    TriggerResult,
)
from windrow.windows import Window

__all__ = ["Calls", "ScriptedTrigger", "TimerScript", "build_trigger", "recording", "result_name", "trigger_name"]

_RESULTS = {
    "continue": TriggerResult.CONTINUE,
    "fire": TriggerResult.FIRE,
    "purge": TriggerResult.PURGE,
    "fire_and_purge": TriggerResult.FIRE_AND_PURGE,
}
_NAMES: Mapping[type, str] = {
    EventTimeTrigger: "event_time",
    ProcessingTimeTrigger: "processing_time",
    NeverTrigger: "never",
    EndOfStreamTrigger: "end_of_stream",
}


def result_name(result: TriggerResult) -> str:
    """How the format writes an answer."""
    return result.name.lower()


# Any in this module: a trigger of a case goes with whatever windows the case has.
def trigger_name(trigger: Trigger[Any, Any]) -> str:
    """How the format writes a default trigger."""
    return _NAMES.get(type(trigger), type(trigger).__name__)


def build_trigger(fields: Fields) -> Trigger[Element, Any]:
    """The trigger that ``fields`` describe.

    Raises:
        CaseError: If there is no such trigger.
        InvalidArgumentError: If a parameter is refused.
    """
    trigger = _build(fields)
    fields.done()
    return trigger


def _build(fields: Fields) -> Trigger[Element, Any]:
    kind = fields.text("type")
    if kind == "event_time":
        return EventTimeTrigger.create()
    if kind == "processing_time":
        return ProcessingTimeTrigger.create()
    if kind == "never":
        return NeverTrigger.create()
    if kind == "end_of_stream":
        return EndOfStreamTrigger.create()
    if kind == "count":
        return CountTrigger.of(fields.integer("max"))
    if kind == "continuous_event_time":
        return ContinuousEventTimeTrigger.of(millis(fields, "interval_ms"))
    if kind == "continuous_processing_time":
        return ContinuousProcessingTimeTrigger.of(millis(fields, "interval_ms"))
    if kind == "delta":
        return DeltaTrigger.of(fields.number("threshold"), _growth)
    if kind == "purging":
        return PurgingTrigger.of(build_trigger(fields.fields("inner")))
    if kind in {"event_timeout", "processing_timeout"}:
        timed = EventTimeoutTrigger if kind == "event_timeout" else ProcessingTimeoutTrigger
        return timed.of(
            build_trigger(fields.fields("inner")),
            millis(fields, "timeout_ms"),
            reset_timer_on_new_record=fields.flag("reset_on_element", False),
            should_clear_on_timeout=fields.flag("clear_on_timeout", False),
        )
    if kind == "scripted":
        return ScriptedTrigger(fields)
    raise CaseError(f"unknown trigger {kind!r}")


def _growth(remembered: Element, element: Element) -> float:
    return number(element) - number(remembered)


@dataclass(frozen=True)
class TimerScript:
    """What a callback of a scripted trigger answers, and what it does to timers."""

    result: TriggerResult
    actions: tuple[tuple[str, tuple[Json, ...]], ...]

    @classmethod
    def of(cls, fields: Fields) -> TimerScript:
        actions = tuple(
            (action, tuple(fields.items(action, [])))
            for action in (
                "set_event_timers",
                "set_processing_timers",
                "delete_event_timers",
                "delete_processing_timers",
            )
        )
        script = cls(_result(fields.text("result", "continue")), actions)
        fields.done()
        return script

    def run(self, window: Window, context: TriggerContext) -> TriggerResult:
        calls = {
            "set_event_timers": context.register_event_time_timer,
            "set_processing_timers": context.register_processing_time_timer,
            "delete_event_timers": context.delete_event_time_timer,
            "delete_processing_timers": context.delete_processing_time_timer,
        }
        for action, timers in self.actions:
            for timer in timers:
                calls[action](_time(timer, window))
        return self.result


_NO_SCRIPT = TimerScript(TriggerResult.CONTINUE, ())


class ScriptedTrigger(MergingTrigger[Element, Window]):
    """Does and answers what a case says."""

    # An element of the case may say that the trigger sets such a timer.
    uses_processing_time = True

    def __init__(self, fields: Fields) -> None:
        self._on_element = _script(fields, "on_element")
        self._on_merge = _script(fields, "on_merge")
        self._on_clear = _script(fields, "on_clear")
        self._on_event_time = _answers(fields, "on_event_time")
        self._on_processing_time = _answers(fields, "on_processing_time")

    def on_element(self, element: Element, timestamp: int, window: Window, context: TriggerContext) -> TriggerResult:
        script = element.part("trigger")
        if script is not None:
            return TimerScript.of(Fields({"trigger": script}, "step").fields("trigger")).run(window, context)
        return self._on_element.run(window, context)

    def on_event_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _answer(self._on_event_time, time)

    def on_processing_time(self, time: int, window: Window, context: TriggerContext) -> TriggerResult:
        return _answer(self._on_processing_time, time)

    def on_merge(self, window: Window, context: OnMergeContext) -> None:
        self._on_merge.run(window, context)

    def clear(self, window: Window, context: TriggerContext) -> None:
        self._on_clear.run(window, context)


def _script(fields: Fields, name: str) -> TimerScript:
    script = fields.fields_or_none(name)
    return _NO_SCRIPT if script is None else TimerScript.of(script)


def _answers(fields: Fields, name: str) -> Mapping[str, TriggerResult]:
    answers = fields.fields_or_none(name)
    return {} if answers is None else {time: _result(answers.text(time)) for time in answers.data}


def _answer(answers: Mapping[str, TriggerResult], time: int) -> TriggerResult:
    return answers.get(str(time), answers.get("default", TriggerResult.CONTINUE))


def _result(name: str) -> TriggerResult:
    if name not in _RESULTS:
        raise CaseError(f"unknown answer {name!r} of a trigger")
    return _RESULTS[name]


def _time(timer: Json, window: Window) -> int:
    if timer == "end":
        return window.max_timestamp() + 1
    if timer == "max":
        return window.max_timestamp()
    if isinstance(timer, float) and timer.is_integer():
        return int(timer)
    if isinstance(timer, bool) or not isinstance(timer, int):
        raise CaseError(f'a timer is a time, "end" or "max", not {timer!r}')
    return timer


@dataclass
class Calls:
    """The calls of a trigger, as the format writes them."""

    on_element: list[Json] = field(default_factory=list)
    on_event_time: list[Json] = field(default_factory=list)
    on_processing_time: list[Json] = field(default_factory=list)
    on_merge: list[Json] = field(default_factory=list)
    clear: list[Json] = field(default_factory=list)

    def take(self) -> dict[str, list[Json]]:
        """The calls of each callback since this was last asked."""
        taken = {name: list(calls) for name, calls in vars(self).items()}
        for calls in vars(self).values():
            calls.clear()
        return taken


def recording(trigger: Trigger[Element, Any], calls: Calls) -> Trigger[Element, Any]:
    """``trigger``, noting its calls. It can merge if ``trigger`` can."""
    if isinstance(trigger, MergingTrigger):
        return _MergingRecorder(trigger, calls)
    return _Recorder(trigger, calls)


class _Recorder(Trigger[Element, AnyWindow]):
    def __init__(self, inner: Trigger[Element, AnyWindow], calls: Calls) -> None:
        self._inner = inner
        self._calls = calls
        self.uses_processing_time = inner.uses_processing_time

    def on_element(self, element: Element, timestamp: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.on_element.append(window_json(window))
        return self._inner.on_element(element, timestamp, window, context)

    def on_event_time(self, time: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.on_event_time.append([time, window_json(window)])
        return self._inner.on_event_time(time, window, context)

    def on_processing_time(self, time: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.on_processing_time.append([time, window_json(window)])
        return self._inner.on_processing_time(time, window, context)

    def clear(self, window: AnyWindow, context: TriggerContext) -> None:
        self._calls.clear.append(window_json(window))
        self._inner.clear(window, context)


class _MergingRecorder(_Recorder, MergingTrigger[Element, AnyWindow]):
    def __init__(self, inner: MergingTrigger[Element, AnyWindow], calls: Calls) -> None:
        super().__init__(inner, calls)
        self._merging = inner

    def on_merge(self, window: AnyWindow, context: OnMergeContext) -> None:
        self._calls.on_merge.append(window_json(window))
        self._merging.on_merge(window, context)

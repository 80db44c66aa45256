"""Triggers from JSON, the scripted one, and one that notes its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

# Any in this module: a trigger of a case goes with whatever windows the case has.
_RESULTS = {result.name.lower(): result for result in TriggerResult}
_DEFAULTS: Mapping[str, Any] = {
    "event_time": EventTimeTrigger,
    "processing_time": ProcessingTimeTrigger,
    "never": NeverTrigger,
    "end_of_stream": EndOfStreamTrigger,
}


def result_name(result: TriggerResult) -> str:
    """How the format writes an answer."""
    return result.name.lower()


def trigger_name(trigger: Trigger[Any, Any]) -> str:
    """How the format writes a default trigger."""
    return next((name for name, kind in _DEFAULTS.items() if type(trigger) is kind), type(trigger).__name__)


def build_trigger(fields: Fields) -> Trigger[Element, Any]:
    """The trigger that ``fields`` describe."""
    trigger = _build(fields)
    fields.done()
    return trigger


def _build(fields: Fields) -> Trigger[Element, Any]:
    kind = fields.text("type")
    if kind in _DEFAULTS:
        trigger: Trigger[Element, Any] = _DEFAULTS[kind].create()
        return trigger
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
        names = (f"{action}_{domain}_timers" for action in ("set", "delete") for domain in ("event", "processing"))
        actions = tuple((name, tuple(fields.items(name, []))) for name in names)
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


class Calls:
    """The calls of a trigger by callback, as the format writes them."""

    def __init__(self) -> None:
        names = ("on_element", "on_event_time", "on_processing_time", "on_merge", "clear")
        self._calls: dict[str, list[Json]] = {name: [] for name in names}

    def note(self, name: str, call: Json) -> None:
        self._calls[name].append(call)

    def take(self) -> dict[str, list[Json]]:
        """The calls of each callback since this was last asked."""
        taken, self._calls = self._calls, {name: [] for name in self._calls}
        return taken


def recording(trigger: Trigger[Element, Any], calls: Calls) -> Trigger[Element, Any]:
    """``trigger``, noting its calls. It can merge if ``trigger`` can."""
    return _MergingRecorder(trigger, calls) if isinstance(trigger, MergingTrigger) else _Recorder(trigger, calls)


class _Recorder(Trigger[Element, AnyWindow]):
    def __init__(self, inner: Trigger[Element, AnyWindow], calls: Calls) -> None:
        self._inner = inner
        self._calls = calls
        self.uses_processing_time = inner.uses_processing_time

    def on_element(self, element: Element, timestamp: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.note("on_element", window_json(window))
        return self._inner.on_element(element, timestamp, window, context)

    def on_event_time(self, time: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.note("on_event_time", [time, window_json(window)])
        return self._inner.on_event_time(time, window, context)

    def on_processing_time(self, time: int, window: AnyWindow, context: TriggerContext) -> TriggerResult:
        self._calls.note("on_processing_time", [time, window_json(window)])
        return self._inner.on_processing_time(time, window, context)

    def clear(self, window: AnyWindow, context: TriggerContext) -> None:
        self._calls.note("clear", window_json(window))
        self._inner.clear(window, context)


class _MergingRecorder(_Recorder, MergingTrigger[Element, AnyWindow]):
    def __init__(self, inner: MergingTrigger[Element, AnyWindow], calls: Calls) -> None:
        super().__init__(inner, calls)
        self._merging = inner

    def on_merge(self, window: AnyWindow, context: OnMergeContext) -> None:
        self._calls.note("on_merge", window_json(window))
        self._merging.on_merge(window, context)

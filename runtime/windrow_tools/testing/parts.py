"""Harnesses for the parts of windows: triggers, assigners and merging, each on its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from windrow.errors import MissingTimestampError
from windrow.time import MIN_TIMESTAMP
from windrow.triggers import MergingTrigger, Trigger, TriggerResult
from windrow.triggers.checks import check_trigger, parts_that_cannot_merge
from windrow.windows import MergingWindowAssigner, Window, WindowAssigner
from windrow_runtime.operators.errors import errors_at, line_of_caller, misuse
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import WindowEntry
from windrow_runtime.operators.trigger_context import TriggerContextImpl
from windrow_runtime.operators.windows.merging import Merged, add_window
from windrow_tools.testing.moments import moment

T = TypeVar("T")
W = TypeVar("W", bound=Window)


@dataclass(frozen=True)
class TriggerAnswer(Generic[W]):
    """The answer of a trigger to a timer.

    Attributes:
        window: The window of the timer.
        result: The answer.
    """

    window: W
    result: TriggerResult


class TriggerHarness(Generic[T, W]):
    """Drives one trigger, for one key, without an operator: nothing is evaluated or cleaned up.

    Args:
        trigger: The trigger under test.
    """

    def __init__(self, trigger: Trigger[T, W]) -> None:
        with errors_at(line_of_caller()):
            check_trigger(trigger, "a trigger harness drives a trigger")
        self._trigger = trigger
        self._driver = _TriggerDriver(trigger)

    def process_element(self, value: T, timestamp: int | datetime | None, window: W) -> TriggerResult:
        """Show the trigger an element of ``window``.

        Args:
            value: The element.
            timestamp: Its timestamp in milliseconds; None: it has none.
            window: The window that has taken it.

        Returns:
            Its answer.
        """
        stamp = MIN_TIMESTAMP if timestamp is None else moment(timestamp, "a timestamp")
        return self._trigger.on_element(value, stamp, window, self._driver.context(window))

    def process_watermark(self, watermark: int | datetime) -> list[TriggerAnswer[W]]:
        """Advance the watermark.

        Args:
            watermark: The watermark in milliseconds.

        Returns:
            The answers to the timers that came due, in order of their time.
        """
        self._driver.advance_watermark(moment(watermark, "a watermark"))
        return self._driver.take()

    def set_processing_time(self, now: int | datetime) -> list[TriggerAnswer[W]]:
        """Set the clock.

        Args:
            now: The time in milliseconds.

        Returns:
            The answers to the timers that came due, in order of their time.
        """
        self._driver.advance_processing_time(moment(now, "the clock"))
        return self._driver.take()

    def call_on_event_time(self, time: int | datetime, window: W) -> TriggerResult:
        """Call the trigger as for an event timer, set or not.

        Args:
            time: The time of the timer, in milliseconds.
            window: The window.

        Returns:
            Its answer.
        """
        return self._trigger.on_event_time(moment(time, "the time of a timer"), window, self._driver.context(window))

    def merge(self, sources: Iterable[W], into: W) -> None:
        """Merge windows: the trigger's merge for ``into``, then its clear for each other of ``sources``.

        Args:
            sources: The windows that merge.
            into: The window that they become; it may be one of them.

        Raises:
            TypeError: If the trigger cannot merge.
        """
        if not isinstance(self._trigger, MergingTrigger):
            guilty = " and ".join(part.describe() for part in parts_that_cannot_merge(self._trigger))
            inside = "" if guilty == self._trigger.describe() else f", because of {guilty}"
            raise TypeError(f"{self._trigger.describe()} cannot merge{inside}")
        sources = list(sources)
        context = self._driver.context(into)
        context.merged = [self._driver.entry(source) for source in sources]
        self._trigger.on_merge(into, context)
        context.merged = []
        for source in sources:
            if source != into:
                self.clear(source)

    def clear(self, window: W) -> None:
        """Call the trigger's clear for ``window``.

        Args:
            window: The window.
        """
        self._trigger.clear(window, self._driver.context(window))

    @property
    def event_timers(self) -> list[tuple[W, int]]:
        """Window and time of each event timer that is set."""
        return [(window, time) for _, window, time in self._driver.state.event_timers]

    @property
    def processing_timers(self) -> list[tuple[W, int]]:
        """Window and time of each processing timer that is set."""
        return [(window, time) for _, window, time in self._driver.state.processing_timers]

    @property
    def state_windows(self) -> list[W]:
        """The windows for which the trigger keeps state, timers aside."""
        return [window for window, entry in self._driver.windows.items() if entry.trigger_state]


class _TriggerDriver(KeyedOperator):
    """Time and timers for a trigger without an operator around it. Any: it serves triggers of every type."""

    def __init__(self, trigger: Trigger[Any, Any]) -> None:
        super().__init__()
        self.windows: dict[Any, WindowEntry] = {}
        self._trigger = trigger
        self._context = TriggerContextImpl(self)
        self._answers: list[TriggerAnswer[Any]] = []

    def context(self, window: Any) -> TriggerContextImpl:
        return self._context.at(None, window, self.entry(window))

    def entry(self, window: Any) -> WindowEntry:
        return self.windows.setdefault(window, WindowEntry())

    def take(self) -> list[TriggerAnswer[Any]]:
        answers, self._answers = self._answers, []
        return answers

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        raise AssertionError("a trigger harness takes elements one by one")

    def on_timer(self, time: int, key: Hashable, namespace: Any, event_time: bool) -> None:
        answer = self._trigger.on_event_time if event_time else self._trigger.on_processing_time
        self._answers.append(TriggerAnswer(namespace, answer(time, namespace, self.context(namespace))))


def assign_windows(
    assigner: WindowAssigner[T, W],
    element: T,
    timestamp: int | datetime | None = None,
    *,
    processing_time: int | datetime = MIN_TIMESTAMP,
) -> list[W]:
    """The windows that ``assigner`` gives ``element``.

    Args:
        assigner: The assigner under test.
        element: The element.
        timestamp: Its timestamp in milliseconds; None for none.
        processing_time: The clock in milliseconds.

    Raises:
        MissingTimestampError: For an event-time assigner and an element without a timestamp, as in a pipeline.
    """
    _check_assigner(assigner, WindowAssigner, "assign_windows(assigner, element, timestamp)")
    if timestamp is None and assigner.is_event_time:
        raise MissingTimestampError(
            "an event-time assigner was given an element without a timestamp",
            given=f"{element!r:.200}",
            expected="timestamp=...",
            where=line_of_caller(),
        )
    stamp = MIN_TIMESTAMP if timestamp is None else moment(timestamp, "a timestamp")
    return list(assigner.assign_windows(element, stamp, _Clock(moment(processing_time, "the clock"))))


def _check_assigner(given: object, class_: type, hint: str) -> None:
    if not isinstance(given, class_):
        raise misuse("an assigner of windows is under test", given=given, expected=f"a {class_.__name__}", hint=hint)


@dataclass(frozen=True)
class _Clock:
    current_processing_time: int


class LiveWindows(Generic[W]):
    """The live windows of one key, merged by an assigner as windows are added.

    Args:
        assigner: Determines which windows merge.
        windows: The windows that are alive already, such as those of a snapshot.
    """

    # Any: merging looks at windows only.
    def __init__(self, assigner: MergingWindowAssigner[Any, W], windows: Iterable[W] = ()) -> None:
        _check_assigner(assigner, MergingWindowAssigner, "EventTimeSessionWindows.with_gap(timedelta(...))")
        self._assigner = assigner
        self._live = list(windows)

    def add(self, window: W) -> tuple[W, list[Merged[W]]]:
        """Add a window.

        Args:
            window: The window.

        Returns:
            The window in which it ended up, and what happened to live windows.
        """
        return add_window(self._live, window, self._assigner)

    def retire(self, window: W) -> None:
        """Take a window out.

        Args:
            window: The window.

        Raises:
            ValueError: If it is not alive.
        """
        self._live.remove(window)

    @property
    def windows(self) -> list[W]:
        """The live windows, in the order in which they came to be."""
        return list(self._live)

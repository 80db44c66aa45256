"""Triggers that wait for one condition: the watermark, a number of elements, the clock."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from windrow.counts import check_positive
from windrow.errors import InvalidArgumentError
from windrow.state import ReducingStateDescriptor
from windrow.time import MAX_TIMESTAMP, duration_millis, duration_text, positive_millis
from windrow.triggers.call_text import call_text, millis_text
from windrow.triggers.composable.contract import Finish, MergingComposableTrigger
from windrow.triggers.trigger import MergePartContext, PartContext, TriggerContext
from windrow.triggers.words import wait_for_clock, wait_for_watermark

if TYPE_CHECKING:
    from windrow.windows.window import Window


def end_is_reached(window: Window, context: TriggerContext) -> bool:
    """Returns whether the watermark has reached the last timestamp of a window."""
    return window.max_timestamp() <= context.current_watermark


def wait_for_end(window: Window, context: TriggerContext) -> None:
    """Sets a timer for the last timestamp of a window, unless the watermark has reached that."""
    if not end_is_reached(window, context):
        context.register_event_time_timer(window.max_timestamp())


class _AtEndOfWindow(MergingComposableTrigger[object, "Window"]):
    """The base of triggers that are ready once the watermark has passed the window."""

    def observe(self, element: object, timestamp: int, window: Window, context: PartContext) -> None:
        wait_for_end(window, context)

    @property
    def earliest_firing(self) -> Finish:
        return Finish.WINDOW_END

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return end_is_reached(window, context)

    def __repr__(self) -> str:
        return self.describe()

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: {wait_for_watermark(window.max_timestamp(), context.current_watermark)}"


class AfterEndOfWindow(_AtEndOfWindow):
    """Ready once the watermark has passed the window; finished when it has fired. See :func:`after_watermark`."""

    @property
    def finish(self) -> Finish:
        return Finish.WINDOW_END

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return True

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Finishes if it has finished in all windows and the watermark has passed the new one; else waits again."""
        wait_for_end(window, context)
        return all(finished) and end_is_reached(window, context)

    def describe(self) -> str:
        return "after_watermark()"


class DefaultTrigger(_AtEndOfWindow):
    """Ready whenever it is asked once the watermark has passed the window; never finished. See :func:`default`."""

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    def on_fire(self, window: Window, context: PartContext) -> bool:
        """Goes on: each late element fires the window again."""
        return False

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        wait_for_end(window, context)
        return False

    def describe(self) -> str:
        return "default()"

    def explain(self, window: Window, context: PartContext) -> str:
        """Says which watermark it waits for, or that each element fires it."""
        text = super().explain(window, context)
        return f"{text}, so each element fires" if end_is_reached(window, context) else text


def default() -> DefaultTrigger:
    """Fires when the watermark has passed the window, and again at each late element.

    It is what windows in event time do without a trigger. Beam calls it ``DefaultTrigger``.
    """
    return DefaultTrigger()


class AfterCount(MergingComposableTrigger[object, "Window"]):
    """Ready when enough elements have come; finished when it has fired. See :func:`after_count`."""

    _COUNT = ReducingStateDescriptor[int]("count", operator.add)

    def __init__(self, count: int) -> None:
        check_positive(count, "the count of a trigger")
        self.count = count

    def observe(self, element: object, timestamp: int, window: Window, context: PartContext) -> None:
        context.get_state(self._COUNT).add(1)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return (context.get_state(self._COUNT).get() or 0) >= self.count

    def on_fire(self, window: Window, context: PartContext) -> bool:
        context.get_state(self._COUNT).clear()
        return True

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Finishes if it has finished in all windows; else adds up their counts of elements that have not fired."""
        context.merge_partitioned_state(self._COUNT)
        if finished and all(finished):
            context.get_state(self._COUNT).clear()
        return bool(finished) and all(finished)

    def forget(self, window: Window, context: PartContext) -> None:
        context.get_state(self._COUNT).clear()

    def describe(self) -> str:
        return f"after_count({self.count})"

    def __repr__(self) -> str:
        return self.describe()

    def explain(self, window: Window, context: PartContext) -> str:
        count = context.get_state(self._COUNT).get() or 0
        return f"{self.describe()}: {count:,} of {self.count:,} elements have come"


def after_count(count: int) -> AfterCount:
    """Fires once, when ``count`` elements of the window have come since the trigger began.

    Beam calls it ``AfterPane.elementCountAtLeast`` in Java, ``AfterCount`` in Python. Alone it lets no second result
    out: ``repeatedly(after_count(count))`` does.

    Args:
        count: How many elements, at least 1.

    Raises:
        InvalidArgumentError: If ``count`` is not a positive int.
    """
    return AfterCount(count)


class AfterProcessingTime(MergingComposableTrigger[object, "Window"]):
    """Ready when the clock has gone on for a time; finished when it has fired. See :func:`after_processing_time`."""

    uses_processing_time = True

    # The earliest target wins where windows merge.
    _TARGET = ReducingStateDescriptor[int]("target", min)

    def __init__(self, delay: timedelta, aligned_to: timedelta | None = None) -> None:
        self.delay = duration_millis(delay, "the delay of a trigger")
        if self.delay < 0:
            raise InvalidArgumentError(
                "the delay of a trigger must not be negative", given=delay, expected="a timedelta >= 0"
            )
        self.aligned_to = (
            None if aligned_to is None else positive_millis(aligned_to, "the period that targets align to")
        )

    def observe(self, element: object, timestamp: int, window: Window, context: PartContext) -> None:
        target = context.get_state(self._TARGET)
        if target.get() is None:
            due = self.target_of(context.current_processing_time)
            target.add(due)
            context.register_processing_time_timer(due)

    def is_ready(self, window: Window, context: PartContext) -> bool:
        due = context.get_state(self._TARGET).get()
        return due is not None and due <= context.current_processing_time

    def on_fire(self, window: Window, context: PartContext) -> bool:
        self.forget(window, context)
        return True

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        """Is finished where it was in all windows; else the earliest target holds."""
        context.merge_partitioned_state(self._TARGET)
        target = context.get_state(self._TARGET)
        if finished and all(finished):
            target.clear()
            return True
        due = target.get()
        if due is not None:
            context.register_processing_time_timer(due)
        return False

    def forget(self, window: Window, context: PartContext) -> None:
        target = context.get_state(self._TARGET)
        due = target.get()
        if due is not None:
            context.delete_processing_time_timer(due)
            target.clear()

    def target_of(self, now: int) -> int:
        """The time at which it is ready where the first element comes at ``now``, in milliseconds."""
        due = now + self.delay
        if self.aligned_to is not None:
            due += -due % self.aligned_to
        return min(due, MAX_TIMESTAMP)

    def describe(self) -> str:
        aligned = "" if self.aligned_to is None else f", aligned to {duration_text(self.aligned_to)}"
        return f"after_processing_time({duration_text(self.delay)}{aligned})"

    def __repr__(self) -> str:
        delay = (millis_text(self.delay),) if self.delay else ()
        aligned = None if self.aligned_to is None else millis_text(self.aligned_to)
        return call_text("after_processing_time", *delay, aligned_to=aligned)

    def explain(self, window: Window, context: PartContext) -> str:
        due = context.get_state(self._TARGET).get()
        waits = "waits for an element" if due is None else wait_for_clock(due, context.current_processing_time)
        return f"{self.describe()}: {waits}"


def after_processing_time(
    delay: timedelta = timedelta(0), *, aligned_to: timedelta | None = None
) -> AfterProcessingTime:
    """Fires once, when the clock has gone on for ``delay`` since the first element that the trigger saw.

    It is ready at the target itself, not a millisecond later.

    Args:
        delay: How long; zero by default.
        aligned_to: Moves the target on to the next multiple of this period since the epoch, the target itself
            included. ``after_processing_time(aligned_to=timedelta(minutes=1))`` is the paper's ``AtPeriod``.

    Raises:
        InvalidArgumentError: If ``delay`` is negative, or ``aligned_to`` is not positive.
    """
    return AfterProcessingTime(delay, aligned_to)


class _Unchanging(MergingComposableTrigger[object, "Window"]):
    """The base of triggers that give the same answer at all times, and so keep no state and are never finished."""

    @property
    def finish(self) -> Finish:
        return Finish.NEVER

    def on_fire(self, window: Window, context: PartContext) -> bool:
        return False

    def merge(self, window: Window, finished: Sequence[bool], context: MergePartContext) -> bool:
        return False

    def __repr__(self) -> str:
        return self.describe()


class Never(_Unchanging):
    """Never ready. See :func:`never`."""

    @property
    def earliest_firing(self) -> Finish:
        return Finish.NEVER

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return False

    def describe(self) -> str:
        return "never()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: does not fire"


def never() -> Never:
    """Does not fire: a window outputs its elements only in its closing pane, when it is cleaned up."""
    return Never()


class Always(_Unchanging):
    """Ready whenever it is asked. See :func:`always`."""

    def is_ready(self, window: Window, context: PartContext) -> bool:
        return True

    def describe(self) -> str:
        return "always()"

    def explain(self, window: Window, context: PartContext) -> str:
        return f"{self.describe()}: fires at each element and each timer"


def always() -> Always:
    """Fires whenever it is asked: at each element, and at each timer of the window, such as that for its end."""
    return Always()

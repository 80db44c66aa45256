"""Defines watermarks, which say how far event time has come, and the strategies that make them.

A watermark ``W`` says that every element with a timestamp up to ``W`` has arrived.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError, no_attribute, require_callable
from windrow.functions.names import function_name
from windrow.time import MIN_TIMESTAMP, duration_text, non_negative_millis, positive_millis

__all__ = [
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarks",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class WatermarkOutput(Protocol):
    """Takes the watermarks that a generator emits."""

    def emit_watermark(self, watermark: int | datetime) -> None:
        """Say that event time has come to ``watermark``, in milliseconds. One below an earlier one has no effect.

        Args:
            watermark: The event time in milliseconds, or as an aware datetime.
        """
        ...


class WatermarkGenerator(ABC, Generic[T_contra]):
    """Makes watermarks from the elements that pass.

    A generator that emits from :meth:`on_event` is punctuated, one that emits from :meth:`on_periodic_emit` is
    periodic. A micro-batch (or a step of the interpreter) is the unit of progress: what is emitted during a batch
    becomes the watermark of the next one.
    """

    @abstractmethod
    def on_event(self, element: T_contra, timestamp: int, output: WatermarkOutput) -> None:
        """Called for every element, with its timestamp in milliseconds.

        Args:
            element: The element.
            timestamp: Its timestamp in milliseconds.
            output: Takes a watermark.
        """

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called at the end of every batch.

        Args:
            output: Takes a watermark.
        """


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator[object]):
    """The highest timestamp so far, less a fixed delay, less one: later elements may equal the highest.

    Source of the rule: Flink's class of the same name.

    Args:
        max_out_of_orderness: The delay in milliseconds.
    """

    def __init__(self, max_out_of_orderness: int) -> None:
        self.max_out_of_orderness = max_out_of_orderness
        self._highest: int | None = None

    def on_event(self, element: object, timestamp: int, output: WatermarkOutput) -> None:
        if self._highest is None or timestamp > self._highest:
            self._highest = timestamp

    def observe(self, highest: int) -> None:
        """As :meth:`on_event` for a whole batch, whose highest timestamp is ``highest``.

        Args:
            highest: The timestamp in milliseconds.
        """
        if self._highest is None or highest > self._highest:
            self._highest = highest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._highest is not None:
            output.emit_watermark(max(self._highest - self.max_out_of_orderness - 1, MIN_TIMESTAMP))


class NoWatermarks(WatermarkGenerator[object]):
    """Emits none."""

    def on_event(self, element: object, timestamp: int, output: WatermarkOutput) -> None:
        """Does nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class WatermarkAlignment:
    """How far the watermark of a partition may be ahead of others.

    Attributes:
        group: Names the sources whose partitions are compared.
        max_drift: How far a partition may be ahead of the lowest one, in milliseconds of event time.
    """

    group: str
    max_drift: int


@dataclass(frozen=True, repr=False)
class WatermarkStrategy(Generic[T_contra]):
    """Says how a stream gets its timestamps and watermarks.

    Attributes:
        create_generator: Makes a generator; called for each partition of the source that the step reads without keyed
            steps between, and else for the step.
        description: What checkpoints know the strategy by; :meth:`describe` is for people.
        ingestion_time: Whether elements get the clock at their arrival as timestamp.
        out_of_orderness: The delay in milliseconds of the bounded strategies; None for others.
        idleness: After this many milliseconds of processing time without elements the stream, or a partition of its
            source, no longer holds back the watermark of others; None: it always does.
        silence: After this many milliseconds in which nothing arrived the watermark of the stream, or of a partition of
            its source, follows the clock; None: only elements move it.
        alignment: How far partitions of sources may be ahead of each other; None: they are read as they come.
    """

    create_generator: Callable[[], WatermarkGenerator[T_contra]]
    description: str
    out_of_orderness: int | None = None
    idleness: int | None = None
    ingestion_time: bool = False
    alignment: WatermarkAlignment | None = None
    silence: int | None = None

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of Flink's."""
            raise no_attribute(self, name, _ELSEWHERE)

    def describe(self) -> str:
        """One line for ``explain()``, with the settings that go with the strategy."""
        settings = [self._kind()]
        if self.idleness is not None:
            settings.append(f"idle after {duration_text(self.idleness)}")
        if self.silence is not None:
            settings.append(f"follows the clock after {duration_text(self.silence)} of silence")
        if self.alignment is not None:
            drift = duration_text(self.alignment.max_drift)
            settings.append(f"aligned with {self.alignment.group!r} within {drift}")
        return ", ".join(settings)

    def _kind(self) -> str:
        create = self.create_generator
        if isinstance(create, _Bounded) and create.delay:
            return f"bounded out-of-orderness, {duration_text(create.delay)}"
        is_own = self.description.startswith("generator ")
        made_by = create.func if isinstance(create, functools.partial) else create
        return f"generator {function_name(made_by)}" if is_own else self.description

    def __repr__(self) -> str:
        return f"WatermarkStrategy({self.describe()})"

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy[object]:
        """For timestamps that never fall: the watermark is one millisecond below the latest one."""
        return WatermarkStrategy(_Bounded(0), "monotonous timestamps", 0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta) -> WatermarkStrategy[object]:
        """For timestamps that come at most ``max_out_of_orderness`` after a later one.

        Args:
            max_out_of_orderness: How long behind the highest timestamp so far the watermark stays.

        Raises:
            InvalidArgumentError: If the duration is negative.

        Example:
            >>> from datetime import datetime, timedelta
            >>> from windrow import WatermarkStrategy
            >>> WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5)).description
            'bounded out-of-orderness, 5000 ms'
        """
        delay = non_negative_millis(max_out_of_orderness, "the out-of-orderness")
        return WatermarkStrategy(_Bounded(delay), f"bounded out-of-orderness, {delay} ms", delay)

    @staticmethod
    def for_generator(create: Callable[[], WatermarkGenerator[T]]) -> WatermarkStrategy[T]:
        """Watermarks from a generator of your own.

        Args:
            create: Makes a generator, for each partition of the source if it has some; a class will do.
        """
        require_callable(
            create, "what makes a watermark generator", "a callable without arguments, such as a class", takes=""
        )
        return WatermarkStrategy(create, f"generator {attribute_of(create, '__qualname__') or repr(create)}")

    @staticmethod
    def no_watermarks() -> WatermarkStrategy[object]:
        """Timestamps without watermarks: event-time windows fire at the end of the stream only."""
        return WatermarkStrategy(NoWatermarks, "no watermarks")

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy[object]:
        """Timestamps are the times at which elements arrive, and watermarks follow at once.

        The only strategy that needs no timestamp function. On Spark elements arrive when their batch begins, by the
        clock of the driver. A batch that is run again after a failure gets other timestamps.
        """
        return WatermarkStrategy(_Bounded(0), "ingestion time", 0, ingestion_time=True)

    def with_idleness(self, timeout: timedelta) -> WatermarkStrategy[T_contra]:
        """The same strategy for a stream that may fall silent, or partitions of it.

        Args:
            timeout: After this time without an element, the stream does not hold back the watermark of others. If its
                source has partitions, the time is that of each: one does not hold back the others.

        Raises:
            InvalidArgumentError: If ``timeout`` is not positive.
        """
        return replace(self, idleness=positive_millis(timeout, "the idleness timeout"))

    def with_silence(self, after: timedelta) -> WatermarkStrategy[T_contra]:
        """The same strategy for a stream whose windows have to come although nothing follows them.

        When nothing has arrived from the source for ``after``, the watermark goes to the time of the clock less the
        bound of out-of-orderness, as if an element with that time had come. It follows the clock until something
        arrives. What arrives then and is older is late, and counted as such. So timestamps have to be times of the same
        clock: give hosts a bound that their clocks keep.

        What counts is arrival: a source is silent when a batch has asked it, and it had nothing new. One that is behind
        is not, however old its elements are and however few of them pass the steps before this one. If a source has
        partitions, each falls silent by itself, and the lowest of their watermarks counts as always. On Spark a batch
        begins only when elements came, or when a window or timer is due by the clock. The time of the last arrival and
        the watermark are kept in the checkpoint.

        An input that is idle (:meth:`with_idleness`) leaves the watermark to others, and where it is once all are idle;
        a silent one goes on with the clock. Source of the rule: Beam's ``CustomTimestampPolicyWithLimitedDelay``, which
        lets the watermark of a partition without a backlog follow the clock less a delay.

        Args:
            after: How long nothing has arrived, by the clock of the runner.

        Raises:
            InvalidArgumentError: If ``after`` is not positive, the strategy has no bound of out-of-orderness (a
                generator of your own, no watermarks), or it is aligned with others.

        Example:
            >>> from datetime import timedelta
            >>> from windrow import WatermarkStrategy
            >>> bounded = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
            >>> bounded.with_silence(after=timedelta(seconds=30))
            WatermarkStrategy(bounded out-of-orderness, 5 s, follows the clock after 30 s of silence)
        """
        silence = positive_millis(after, "the time of silence")
        if self.out_of_orderness is None:
            raise InvalidArgumentError(
                "a strategy without a bound does not say how far behind the clock the watermark may come",
                given=f"{self.describe()}, with_silence(after={duration_text(silence)})",
                expected="for_bounded_out_of_orderness(...), for_monotonous_timestamps() or for_ingestion_time()",
                hint="for_bounded_out_of_orderness(timedelta(...)).with_silence(after=...)",
            )
        self._refuse_alignment(self.alignment, silence)
        return replace(self, silence=silence)

    def _refuse_alignment(self, alignment: WatermarkAlignment | None, silence: int | None) -> None:
        if alignment is not None and silence is not None:
            raise InvalidArgumentError(
                "a partition that waits for others is not asked for elements, so nobody knows whether it is silent",
                given=f"with_silence(after={duration_text(silence)}), aligned with {alignment.group!r}",
                expected="one of the two",
            )

    def with_watermark_alignment(self, group: str, max_drift: timedelta) -> WatermarkStrategy[T_contra]:
        """The same strategy for partitions that are read in step, so that less state waits for the slowest one.

        A batch reads nothing of a partition whose watermark is more than ``max_drift`` ahead of the lowest one in the
        group, among partitions that have elements to read. It is for topics that confluent-kafka reads and for sources
        of your own, whose elements come to the step without keyed steps between, in a plan with a keyed step. The limit
        holds between batches: within one a partition may go further, so give batches a size, such as
        ``max_offsets_per_batch``. A batch job (``run_batch``) has no watermarks to align, and ignores it.

        Args:
            group: All strategies with this name are aligned with each other.
            max_drift: How far a partition may be ahead, a ``timedelta`` in event time.

        Raises:
            InvalidArgumentError: If ``group`` is empty, ``max_drift`` is not positive, or the strategy has
                :meth:`with_silence`.
        """
        if not group:
            raise InvalidArgumentError("the group of an alignment has a name", given=group, expected="a text")
        drift = positive_millis(max_drift, "the largest drift")
        alignment = WatermarkAlignment(group, drift)
        self._refuse_alignment(alignment, self.silence)
        return replace(self, alignment=alignment)


_ELSEWHERE: Final = {
    "with_timestamp_assigner": "assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
    **dict.fromkeys(("with_timeout", "with_idle_timeout"), "with_idleness(...), or with_silence(after=...)"),
}
"""What to write instead of Flink's names."""


@dataclass(frozen=True, slots=True)
class _Bounded:
    delay: int

    def __call__(self) -> WatermarkGenerator[object]:
        return BoundedOutOfOrdernessWatermarks(self.delay)

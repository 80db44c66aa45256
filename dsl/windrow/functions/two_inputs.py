"""Functions of two streams: connected, joined by window, by interval or as of a time, and with broadcast rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from windrow.functions.process import KeyedProcessContext, OnTimerContext
from windrow.functions.rich import DescribedFunction, RichFunction
from windrow.functions.stateless import ProcessContext

if TYPE_CHECKING:
    from windrow.tags import OutputTag

K = TypeVar("K")
S = TypeVar("S")
L_contra = TypeVar("L_contra", contravariant=True)
U_contra = TypeVar("U_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class CoMapFunction(RichFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes one record from each element of two connected streams."""

    @abstractmethod
    def map1(self, value: L_contra) -> R_co:
        """Called for each element of the first stream.

        Args:
            value: The element.

        Returns:
            The record to emit.
        """

    @abstractmethod
    def map2(self, value: U_contra) -> R_co:
        """Called for each element of the second stream.

        Args:
            value: The element.

        Returns:
            The record to emit.
        """


class CoFlatMapFunction(RichFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes any number of records from each element of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: L_contra) -> Iterable[R_co] | None:
        """Called for each element of the first stream; its results are emitted in order, and None emits nothing.

        Args:
            value: The element.

        Returns:
            The records to emit; a generator will do, and None emits nothing.
        """

    @abstractmethod
    def flat_map2(self, value: U_contra) -> Iterable[R_co] | None:
        """Called for each element of the second stream.

        Args:
            value: The element.

        Returns:
            The records to emit; a generator will do, and None emits nothing.
        """


class CoProcessFunction(DescribedFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes records from each element of two connected streams, also for side outputs; without keys.

    The type parameters are the elements of the first and of the second stream, and the result. It may ask
    ``context.timer_service`` for the time, but has no state and no timers: what both streams are to share needs keys,
    and a :class:`KeyedCoProcessFunction`. The streams may be read by different workers, each of which opens a copy of
    its own, so fields of the function are no place for it either.
    """

    @abstractmethod
    def process_element1(self, value: L_contra, context: ProcessContext) -> Iterable[R_co] | None:
        """Called for each element of the first stream.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: The timestamp, time and side outputs.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the timestamp of the element.
        """

    @abstractmethod
    def process_element2(self, value: U_contra, context: ProcessContext) -> Iterable[R_co] | None:
        """Called for each element of the second stream; see :meth:`process_element1`.

        Args:
            value: The element.
            context: The timestamp, time and side outputs.

        Returns:
            The records to emit, or None for none.
        """


class KeyedCoProcessFunction(DescribedFunction, ABC, Generic[K, L_contra, U_contra, R_co]):
    """Sees every element of two connected streams by key, with state that both share, and timers.

    The type parameters are the key, the elements of the first and of the second stream, and the result. One instance
    serves all keys: what it remembers belongs into ``context.get_state``, never onto ``self``. Time is that of both
    streams: the watermark is the lower of theirs, and a stream that is idle holds nothing back.

    Attributes:
        uses_processing_time: Whether it sets timers in processing time, or keeps state that expires; see
            :class:`~windrow.functions.KeyedProcessFunction`.
    """

    uses_processing_time: bool = False

    @abstractmethod
    def process_element1(self, value: L_contra, context: KeyedProcessContext[K]) -> Iterable[R_co] | None:
        """Called for each element of the first stream, in order of arrival within its key.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: Key, timestamp, state, timers and side outputs.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the timestamp of the element.
        """

    @abstractmethod
    def process_element2(self, value: U_contra, context: KeyedProcessContext[K]) -> Iterable[R_co] | None:
        """Called for each element of the second stream; see :meth:`process_element1`.

        Args:
            value: The element.
            context: Key, timestamp, state, timers and side outputs.

        Returns:
            The records to emit, or None for none.
        """

    def on_timer(self, timestamp: int, context: OnTimerContext[K]) -> Iterable[R_co] | None:
        """Called when a timer fires, in order of time; see :meth:`windrow.functions.KeyedProcessFunction.on_timer`.

        Args:
            timestamp: The time of the timer, in milliseconds.
            context: Key, time domain, state, timers and side outputs.

        Returns:
            The records to emit, or None for none.
        """
        return ()


class JoinFunction(RichFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes one record from a pair of elements that a join has found."""

    @abstractmethod
    def join(self, left: L_contra, right: U_contra) -> R_co:
        """Called for each pair. A side is None where an outer join has found nothing for the other.

        Args:
            left: The left element, or None where an outer join has found none.
            right: The right element, or None where an outer join has found none.

        Returns:
            The record to emit.
        """

    def __call__(self, left: L_contra, right: U_contra) -> R_co:
        """Calls :meth:`join`."""
        return self.join(left, right)


class CoGroupFunction(RichFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes records from the elements of two streams that share a key and a window."""

    @abstractmethod
    def co_group(self, left: Sequence[L_contra], right: Sequence[U_contra]) -> Iterable[R_co] | None:
        """Called when a window fires, also where it has elements of one stream only.

        Args:
            left: The elements of the first stream, in order of arrival.
            right: Those of the second one. Both are empty where an evictor has removed all elements.

        Returns:
            The records to emit, or None for none.
        """

    def __call__(self, left: Sequence[L_contra], right: Sequence[U_contra]) -> Iterable[R_co] | None:
        """Calls :meth:`co_group`."""
        return self.co_group(left, right)


class ProcessJoinContext(Protocol):
    """Gives a join function the timestamps of a pair, and side outputs; it is not to be kept beyond the call."""

    @property
    def left_timestamp(self) -> int:
        """The timestamp of the left element, in milliseconds."""
        ...

    @property
    def right_timestamp(self) -> int:
        """The timestamp of the right element, in milliseconds."""
        ...

    @property
    def timestamp(self) -> int:
        """The later one of both, in milliseconds, which results carry."""
        ...

    def output(self, tag: OutputTag[S], value: S) -> None:
        """Emit ``value`` to a side output, with the timestamp of the results.

        Args:
            tag: Names the output.
            value: The element to emit.
        """
        ...


class ProcessJoinFunction(DescribedFunction, ABC, Generic[L_contra, U_contra, R_co]):
    """Makes records from a pair of elements whose timestamps lie within the bounds of an interval join."""

    @abstractmethod
    def process_element(self, left: L_contra, right: U_contra, context: ProcessJoinContext) -> Iterable[R_co] | None:
        """Called for each pair, as soon as its second element is there.

        Args:
            left: The left element. It may be called with it again: it is not to be changed.
            right: The right element; nor is this.
            context: The timestamps and side outputs.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the later timestamp.
        """

"""Functions of a keyed stream with broadcast rules, which every key sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from windrow.functions.process import KeyedProcessContext, OnTimerContext
from windrow.functions.rich import DescribedFunction
from windrow.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from windrow.time import Clocks

if TYPE_CHECKING:
    from windrow.tags import OutputTag

T_contra = TypeVar("T_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)
S = TypeVar("S")
V = TypeVar("V")
M = TypeVar("M")
T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class ReadOnlyContext(KeyedProcessContext[K_co], Protocol[K_co]):
    """Gives a function key, time, timers, state and side outputs, and the rules, which it may read."""

    def get_broadcast_state(self, descriptor: MapStateDescriptor[M, V]) -> ReadOnlyBroadcastState[M, V]:
        """The rules under a descriptor that ``broadcast`` was given.

        Args:
            descriptor: One of those that ``broadcast`` was given.

        Raises:
            InvalidArgumentError: If it was not given this descriptor.
        """
        ...


class ReadOnlyOnTimerContext(ReadOnlyContext[K_co], OnTimerContext[K_co], Protocol[K_co]):
    """The same when a timer fires."""


class BroadcastContext(KeyedStateStore, Clocks, Protocol[K_co, R_contra]):
    """Gives a function time, side outputs, and the rules, which it may change; it is not to be kept beyond the call.

    An element of the broadcast stream has no key, so there are no timers, and no state of a key. But
    :meth:`apply_to_keyed_state` calls a function with each key that has a state. In such a function, and nowhere else,
    :meth:`get_state` gives further state of the same key; and the rules are fixed.
    """

    @property
    def timestamp(self) -> int | None:
        """The timestamp of the element; None where it has none."""
        ...

    def output(self, tag: OutputTag[S], value: S) -> None:
        """Emit ``value`` to a side output, with the timestamp of the element.

        Args:
            tag: Names the output.
            value: The element to emit.
        """
        ...

    def get_broadcast_state(self, descriptor: MapStateDescriptor[M, V]) -> BroadcastState[M, V]:
        """The rules under a descriptor that ``broadcast`` was given.

        Args:
            descriptor: One of those that ``broadcast`` was given.

        Raises:
            InvalidArgumentError: If it was not given this descriptor.
        """
        ...

    @overload
    def apply_to_keyed_state(
        self, descriptor: ValueStateDescriptor[V], function: Callable[[K_co, ValueState[V]], Iterable[R_contra] | None]
    ) -> None: ...
    @overload
    def apply_to_keyed_state(
        self, descriptor: ListStateDescriptor[V], function: Callable[[K_co, ListState[V]], Iterable[R_contra] | None]
    ) -> None: ...
    @overload
    def apply_to_keyed_state(
        self,
        descriptor: MapStateDescriptor[M, V],
        function: Callable[[K_co, MapState[M, V]], Iterable[R_contra] | None],
    ) -> None: ...
    @overload
    def apply_to_keyed_state(
        self,
        descriptor: ReducingStateDescriptor[V],
        function: Callable[[K_co, ReducingState[V]], Iterable[R_contra] | None],
    ) -> None: ...
    @overload
    def apply_to_keyed_state(
        self,
        descriptor: AggregatingStateDescriptor[T, A, R],
        function: Callable[[K_co, AggregatingState[T, R]], Iterable[R_contra] | None],
    ) -> None: ...
    def apply_to_keyed_state(
        self, descriptor: StateDescriptor, function: Callable[[K_co, Any], Iterable[R_contra] | None]
    ) -> None:
        """Calls a function with each key that has a state, and with this state, in any order.

        Args:
            descriptor: Describes the state.
            function: May change the state or clear it. The records that it returns are emitted with the timestamp of
                the element; None emits nothing.
        """
        ...


class KeyedBroadcastProcessFunction(DescribedFunction, ABC, Generic[K, T_contra, B_contra, R_co]):
    """Sees every element of a keyed stream together with rules, which elements of a broadcast stream change.

    The type parameters are the key, the elements of the keyed and of the broadcast stream, and the result. One instance
    serves all keys: what it remembers belongs into ``context.get_state`` and into the rules, never onto ``self``. Time
    is that of both streams: the watermark is the lower of theirs, and a stream that is idle holds nothing back.

    Attributes:
        uses_processing_time: Whether it sets timers in processing time, or keeps state that expires; see
            :class:`~windrow.functions.KeyedProcessFunction`.
    """

    uses_processing_time: bool = False

    @abstractmethod
    def process_element(self, value: T_contra, context: ReadOnlyContext[K]) -> Iterable[R_co] | None:
        """Called for each element of the keyed stream, in order of arrival within its key.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: Key, timestamp, state, timers, side outputs, and the rules to be read.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the timestamp of the element.
        """

    @abstractmethod
    def process_broadcast_element(self, value: B_contra, context: BroadcastContext[K, R_co]) -> Iterable[R_co] | None:
        """Called for each element of the broadcast stream, before the elements of the keyed stream in its batch.

        Each group of keys has a copy of the rules, so an engine calls it more than once for an element. It must do the
        same each time: change the rules by what is in the element and in the rules, and by nothing else.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: The rules to be changed, time, side outputs, and the state of all keys.

        Returns:
            The records to emit, once however often it is called. They carry the timestamp of the element.
        """

    def on_timer(self, timestamp: int, context: ReadOnlyOnTimerContext[K]) -> Iterable[R_co] | None:
        """Called when a timer fires, in order of time; see :meth:`windrow.functions.KeyedProcessFunction.on_timer`.

        Args:
            timestamp: The time of the timer, in milliseconds.
            context: Key, time domain, state, timers, side outputs, and rules to read.

        Returns:
            The records to emit, or None for none.
        """
        return ()

"""The state of a key, as functions and triggers get it from their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, overload

if TYPE_CHECKING:
    # windrow.state needs aggregate functions; at run time this module needs none of these.
    from windrow.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )

__all__ = ["KeyedStateStore"]

V = TypeVar("V")
K = TypeVar("K")
T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class KeyedStateStore(Protocol):
    """Gives handles of the state of the current key."""

    @overload
    def get_state(self, descriptor: ValueStateDescriptor[V]) -> ValueState[V]: ...
    @overload
    def get_state(self, descriptor: ListStateDescriptor[V]) -> ListState[V]: ...
    @overload
    def get_state(self, descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]: ...
    @overload
    def get_state(self, descriptor: ReducingStateDescriptor[V]) -> ReducingState[V]: ...
    @overload
    def get_state(self, descriptor: AggregatingStateDescriptor[T, A, R]) -> AggregatingState[T, R]: ...
    def get_state(self, descriptor: StateDescriptor) -> object:
        """Returns a handle of the state that a descriptor describes.

        Args:
            descriptor: Names the state, and says of which kind it is.

        Raises:
            UnsupportedOperationError: Where there is no key, or no state of this kind.
        """
        ...

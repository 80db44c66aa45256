"""Keyed state: what triggers and functions keep per key, or per key and window.

A descriptor names a state and says how it behaves; a context turns it into a handle. A handle serves the key
(and window) of each call, so that a function may keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

from windrow.errors import InvalidArgumentError, require_callable
from windrow.time import TimeDomain, positive_millis

if TYPE_CHECKING:
    from windrow.functions.aggregate import AggregateFunction

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "BroadcastState",
    "KeyedStateStore",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingStateDescriptor",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

V = TypeVar("V")
K = TypeVar("K")
A = TypeVar("A")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


class ValueState(Protocol[V]):
    """One value, or none. It changes only by :meth:`update`: :meth:`value` returns a copy."""

    def value(self) -> V | None:
        """The value, or None where there is none."""
        ...

    def update(self, value: V) -> None:
        """Set the value; None forgets it.

        Args:
            value: The value.
        """
        ...

    def clear(self) -> None:
        """Forget the value."""
        ...


class ListState(Protocol[V]):
    """Values in the order in which they were added. Reads return copies of the stored values."""

    def get(self) -> list[V]:
        """The values; empty where there are none."""
        ...

    def add(self, value: V) -> None:
        """Append one value.

        Args:
            value: The value.
        """
        ...

    def add_all(self, values: Iterable[V]) -> None:
        """Append several values.

        Args:
            values: The values, in their order.
        """
        ...

    def update(self, values: Iterable[V]) -> None:
        """Replace all values.

        Args:
            values: The values that take their place, in their order; without any the list is empty.
        """
        ...

    def clear(self) -> None:
        """Forget all values."""
        ...


class ReadableMap(Protocol[K, V_co]):
    """Values by key, to be read."""

    def get(self, key: K) -> V_co | None:
        """The value under ``key``, or None.

        Args:
            key: The key in the map, another one than that of the stream.
        """
        ...

    def contains(self, key: K) -> bool:
        """Whether there is a value under ``key``.

        Args:
            key: The key in the map, another one than that of the stream.
        """
        ...

    def keys(self) -> Iterator[K]:
        """The keys."""
        ...

    def values(self) -> Iterator[V_co]:
        """The values."""
        ...

    def items(self) -> Iterator[tuple[K, V_co]]:
        """Keys and values."""
        ...

    def is_empty(self) -> bool:
        """Whether there is nothing in the map."""
        ...


class WritableMap(ReadableMap[K, V], Protocol[K, V]):
    """Values by key, to be changed."""

    def put(self, key: K, value: V) -> None:
        """Set the value under ``key``.

        Args:
            key: The key in the map, another one than that of the stream.
            value: The value.
        """
        ...

    def remove(self, key: K) -> None:
        """Forget ``key``; no error where it is not there.

        Args:
            key: The key in the map, another one than that of the stream.
        """
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class MapState(WritableMap[K, V], Protocol[K, V]):
    """Values by key, in the order in which the keys were first put. Reads return copies of the stored values."""


class ReadOnlyBroadcastState(ReadableMap[K, V_co], Protocol[K, V_co]):
    """Rules by key, to be read, in the order in which the keys were first put. Reads return copies."""


class BroadcastState(ReadOnlyBroadcastState[K, V], WritableMap[K, V], Protocol[K, V]):
    """Rules by key, to be changed by the elements of a broadcast stream."""


class FoldingState(Protocol[T_contra, R_co]):
    """Values folded into one as they are added."""

    def get(self) -> R_co | None:
        """The result so far, or None where nothing was added."""
        ...

    def add(self, value: T_contra) -> None:
        """Fold one more value in.

        Args:
            value: The value.
        """
        ...

    def clear(self) -> None:
        """Forget what was added."""
        ...


class ReducingState(FoldingState[V, V], Protocol[V]):
    """Values folded into one by a reduce function as they are added."""


class AggregatingState(FoldingState[T_contra, R_co], Protocol[T_contra, R_co]):
    """Values folded into an accumulator as they are added."""


@dataclass(frozen=True, slots=True)
class StateTtlConfig:
    """Says how long state lives: a value as a whole, each entry of a map and each element of a list by itself.

    What has expired is never seen: neither by ``get`` nor by ``contains``, ``items`` or ``is_empty``. It is taken away
    by timers, also where its key never comes again.

    Attributes:
        time_to_live: After this much time without a write, the value, entry or element is gone.
        refresh_on_read: Whether a read counts as a write: of a map that of the entry that is asked for, or of all that
            are iterated over.
        time_domain: The time that counts. ``PROCESSING_TIME``: the clock. ``EVENT_TIME``: the timestamps of the
            elements that write and read, or the watermark where that is later, so that a replay, or a batch job over
            old records, forgets what the live stream forgot. It needs elements with timestamps.
    """

    time_to_live: timedelta
    refresh_on_read: bool = False
    time_domain: TimeDomain = field(default=TimeDomain.PROCESSING_TIME, kw_only=True)

    def __post_init__(self) -> None:
        positive_millis(self.time_to_live, "the time to live of state")
        if not isinstance(self.time_domain, TimeDomain):
            raise InvalidArgumentError(
                "state expires in processing time or in event time",
                given=self.time_domain,
                expected="TimeDomain.PROCESSING_TIME or TimeDomain.EVENT_TIME",
            )

    @property
    def millis(self) -> int:
        """The time to live in milliseconds."""
        return positive_millis(self.time_to_live, "the time to live of state")


# No slots: typing sets __orig_class__ on ReducingStateDescriptor[int](...), which slotted frozen classes refuse badly.
@dataclass(frozen=True)
class StateDescriptor:
    """The base of all descriptors of state: a name and a time to live.

    Attributes:
        name: Names the state; unique within a step (and, for triggers, within the trigger).
        ttl: How long it lives; None: until it is cleared. For the state of process functions; that of triggers and
            window functions is refused with a time to live.
    """

    name: str
    ttl: StateTtlConfig | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(
                "a state descriptor needs a name", given=self.name, expected="a non-empty string"
            )


@dataclass(frozen=True)
class ValueStateDescriptor(StateDescriptor, Generic[V]):
    """Describes a :class:`ValueState`.

    Attributes:
        type_: The type of the value, for the type checker.
    """

    type_: type[V] | None = None


@dataclass(frozen=True)
class MergingStateDescriptor(StateDescriptor):
    """A descriptor of state that can be merged when windows merge: list, reducing, aggregating state."""


@dataclass(frozen=True)
class ListStateDescriptor(MergingStateDescriptor, Generic[V]):
    """Describes a :class:`ListState`. Merging appends the lists.

    Attributes:
        type_: The type of the values, for the type checker.
    """

    type_: type[V] | None = None


@dataclass(frozen=True)
class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Describes a :class:`MapState`. It cannot be merged by windrow: which value would win is yours to say.

    Attributes:
        key_type: The type of the keys, for the type checker.
        value_type: The type of the values, for the type checker.
    """

    key_type: type[K] | None = None
    value_type: type[V] | None = None


@dataclass(frozen=True)
class ReducingStateDescriptor(MergingStateDescriptor, Generic[V]):
    """Describes a :class:`ReducingState`. Merging folds the values by the same function.

    Attributes:
        reduce_function: Combines what was folded so far with a new value.
        type_: The type of the values, for the type checker, which cannot tell it from a lambda, ``max`` or
            ``operator.add``: ``ReducingStateDescriptor("total", operator.add, int)``.
    """

    reduce_function: Callable[[V, V], V]
    type_: type[V] | None = None

    def __post_init__(self) -> None:
        StateDescriptor.__post_init__(self)
        require_callable(self.reduce_function, "the reduce function of state", "a callable of two values", takes="a, b")


@dataclass(frozen=True)
class AggregatingStateDescriptor(MergingStateDescriptor, Generic[T, A, R]):
    """Describes an :class:`AggregatingState`. Merging needs the function's ``merge``.

    Attributes:
        aggregate_function: Folds the values. The type checker cannot tell the type of the values from the lambda of a
            declared aggregate: ``AggregatingStateDescriptor[Sale, Any, int]("total", agg.sum(lambda s: s.amount))``
            says the types of the values, the accumulator and the result.
    """

    aggregate_function: AggregateFunction[T, A, R, object]


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

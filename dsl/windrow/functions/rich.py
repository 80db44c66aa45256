"""Rich functions have ``open`` and ``close``, which are called around the elements of their step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, overload

if TYPE_CHECKING:
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

__all__ = ["Counter", "MetricGroup", "RichFunction", "RuntimeContext"]

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class Counter(Protocol):
    """A number that only grows."""

    def inc(self, n: int = 1) -> None:
        """Add ``n``.

        Args:
            n: How much to add.
        """
        ...


class MetricGroup(Protocol):
    """The metrics of a step."""

    def counter(self, name: str) -> Counter:
        """The counter of that name; made at first use. Its total is in the result of the run.

        Args:
            name: The name of the counter in the step.
        """
        ...


class RuntimeContext(Protocol):
    """Describes the step and the worker that a function runs in."""

    @property
    def step_name(self) -> str:
        """The name of the step, as ``explain()`` shows it."""
        ...

    @property
    def key_group(self) -> int | None:
        """The key group whose elements the instance works on now; None where there are none, as in the interpreter."""
        ...

    @property
    def metrics(self) -> MetricGroup:
        """The metrics of the step."""
        ...

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
        """Returns a handle on keyed state, which a keyed process function may keep on ``self``.

        The handle serves the key of each call, as in Flink. ``open`` and ``close`` have no key, so that it cannot be
        used there.

        Args:
            descriptor: Names the state, and says of which kind it is.

        Raises:
            UnsupportedOperationError: The function belongs to a window or to a step without keys.
        """
        ...


class RichFunction:
    """A function with a life: :meth:`open` is called before its first element, :meth:`close` after its last one.

    An instance may be opened many times, on other machines, from a copy. What :meth:`open` makes (a connection, a
    loaded model) is neither stored nor sent.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once on each worker before the first element.

        Args:
            runtime_context: The step, its metrics, and keyed state where it has some.
        """

    def close(self) -> None:
        """Called once on each worker after the last element, also when the step failed."""

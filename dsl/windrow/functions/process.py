"""Functions that see every element of a key, with state and timers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from windrow.functions.rich import DescribedFunction
from windrow.state import KeyedStateStore
from windrow.time import TimeDomain, Timers

if TYPE_CHECKING:
    from windrow.tags import OutputTag

T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)
S = TypeVar("S")
A = TypeVar("A")


class TimerService(Timers, Protocol):
    """Time, and the timers of the current key. A timer is unique by its key, domain and time."""


class KeyedProcessContext(KeyedStateStore, Protocol[K_co]):
    """Gives a process function key, time, timers and side outputs during one call; it is not to be kept beyond it.

    Outside a call there is no key, and to ask for state or timers is an error.
    """

    @property
    def key(self) -> K_co:
        """The key."""
        ...

    @property
    def timestamp(self) -> int | None:
        """The timestamp of the element, or the time of the event timer; None where there is none."""
        ...

    @property
    def timer_service(self) -> TimerService:
        """Time and timers."""
        ...

    def output(self, tag: OutputTag[S], value: S) -> None:
        """Emit ``value`` to a side output, with the timestamp of the element, or the time of the timer.

        Args:
            tag: Names the output.
            value: The element to emit.
        """
        ...


class OnTimerContext(KeyedProcessContext[K_co], Protocol[K_co]):
    """Gives a process function key, time, timers and side outputs when a timer fires."""

    @property
    def time_domain(self) -> TimeDomain:
        """The kind of time that the timer waited for."""
        ...


class KeyedProcessFunction(DescribedFunction, ABC, Generic[K, T_contra, R_co]):
    """Sees every element of a key, keeps state, and sets timers in both time domains.

    The type parameters are the key, the element and the result. One instance serves all keys: what it remembers
    belongs into ``context.get_state``, never onto ``self``.

    Attributes:
        uses_processing_time: Whether it sets timers in processing time. Spark has to run batches for the clock then, so
            a function of yours that does says ``uses_processing_time = True``; else setting one fails, on both engines.
            The same holds for state that expires in processing time, where the plan cannot see its descriptor in an
            attribute of the function, or in a variable that its code names.
    """

    uses_processing_time: bool = False

    @abstractmethod
    def process_element(self, value: T_contra, context: KeyedProcessContext[K]) -> Iterable[R_co] | None:
        """Called for each element, in order of arrival within its key.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: Key, timestamp, state, timers and side outputs.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the timestamp of the element.
            Each is emitted as it is at that moment; what the function changes in it afterwards has no effect.
        """

    def on_timer(self, timestamp: int, context: OnTimerContext[K]) -> Iterable[R_co] | None:
        """Called when a timer fires, in order of time.

        Args:
            timestamp: The time of the timer, in milliseconds.
            context: Key, time domain, state, timers and side outputs.

        Returns:
            The records to emit, or None for none. They carry the time of an event timer; those of a processing timer
            have no timestamp.
        """
        return ()

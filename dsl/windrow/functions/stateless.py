"""Functions of elements without keys: with side outputs, of several elements at a time, and asynchronous ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from windrow.functions.rich import DescribedFunction, RichFunction, RuntimeContext

if TYPE_CHECKING:
    from windrow.functions.process import TimerService
    from windrow.tags import OutputTag

S = TypeVar("S")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class ProcessContext(Protocol):
    """Gives a process function timestamp, time and side outputs during one call; it is not to be kept beyond it."""

    @property
    def timestamp(self) -> int | None:
        """The timestamp of the element, in milliseconds; None where it has none."""
        ...

    @property
    def timer_service(self) -> TimerService:
        """The watermark and the clock, in milliseconds. A stream without keys has no timers.

        The watermark is that of the step's input when the batch began; downstream of a keyed step, results of its
        timers come under the watermark before. It is :data:`windrow.time.MIN_TIMESTAMP` while there is none, and on
        Spark also in ``run_batch``, after a restart that does not find the progress of the run before, and where a
        plan without keyed steps assigns timestamps more than once or by a generator of the user's.

        Raises:
            UnsupportedOperationError: By the methods that register or delete timers.
        """
        ...

    def output(self, tag: OutputTag[S], value: S) -> None:
        """Emit ``value`` to a side output, with the timestamp of the element.

        Args:
            tag: Names the output.
            value: The element to emit.
        """
        ...


class ProcessFunction(DescribedFunction, ABC, Generic[T_contra, R_co]):
    """Makes records from each element, and splits a stream into side outputs. It has no keys, state or timers.

    The type parameters are the element and the result. With keys, see
    :class:`~windrow.functions.KeyedProcessFunction`.
    """

    @abstractmethod
    def process_element(self, value: T_contra, context: ProcessContext) -> Iterable[R_co] | None:
        """Called for each element.

        Args:
            value: The element, which the function may change: nobody else sees it.
            context: The timestamp, time and side outputs.

        Returns:
            The records to emit; a generator will do, and None emits nothing. They carry the timestamp of the element.
        """


class AsyncFunction(RichFunction, ABC, Generic[T_contra, R_co]):
    """Makes one record from each element, and lets others go on while it waits; for ``map_async``.

    ``open`` and ``close`` are called outside of the event loop. What belongs to the loop, such as a session of a
    client, is made in :meth:`open_async`, and ended in :meth:`close_async`.
    """

    async def open_async(self, runtime_context: RuntimeContext) -> None:
        """Called in the event loop before the first element, after ``open``.

        Args:
            runtime_context: The step and its metrics.
        """

    async def close_async(self) -> None:
        """Called in the event loop at the end, before ``close``; also where the run has failed or was interrupted."""

    @abstractmethod
    async def invoke(self, value: T_contra) -> R_co:
        """Called for each element, and again if it fails while there are tries left.

        Args:
            value: The element.

        Returns:
            The result for it.
        """

    async def __call__(self, value: T_contra) -> R_co:
        """Calls :meth:`invoke`."""
        return await self.invoke(value)

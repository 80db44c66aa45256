"""Functions that see a whole window when it fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from windrow.functions.rich import DescribedFunction
from windrow.state import KeyedStateStore
from windrow.time import Clocks

if TYPE_CHECKING:
    from windrow.panes import PaneInfo
    from windrow.tags import OutputTag
    from windrow.windows.window import Window

T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
W = TypeVar("W", bound="Window")
W_co = TypeVar("W_co", bound="Window", covariant=True)
S = TypeVar("S")


class ProcessWindowContext(Clocks, Protocol[W_co]):
    """Gives a window function the window, time, state and side outputs during one call."""

    @property
    def window(self) -> W_co:
        """The window that fires."""
        ...

    @property
    def pane(self) -> PaneInfo:
        """The place of this result among those of the window.

        Raises:
            UnsupportedOperationError: For a trigger of Flink's kind that may fire more than once, where no accumulation
                mode was set: its firings are not counted.
        """
        ...

    @property
    def window_state(self) -> KeyedStateStore:
        """State of this key and window. It goes when the window is cleaned up.

        Raises:
            UnsupportedOperationError: For merging windows, because a merge would lose this state.
        """
        ...

    @property
    def global_state(self) -> KeyedStateStore:
        """State of this key, shared by all its windows. It stays until it is cleared."""
        ...

    def output(self, tag: OutputTag[S], value: S) -> None:
        """Emit ``value`` to a side output. It carries the last timestamp of the window.

        Args:
            tag: Names the output.
            value: The element to emit.
        """
        ...


class ProcessWindowFunction(DescribedFunction, ABC, Generic[T_contra, R_co, K_contra, W]):
    """Makes records from the contents of a window.

    The type parameters are the element, the result, the key and the window. Together with a reduce or an aggregate it
    gets the one value that these made.
    """

    @abstractmethod
    def process(
        self, key: K_contra, context: ProcessWindowContext[W], elements: Sequence[T_contra]
    ) -> Iterable[R_co] | None:
        """Called at each firing of a window that has contents.

        Args:
            key: The key.
            context: The window, the time, state and side outputs; not to be kept beyond the call.
            elements: The contents in order of arrival. They belong to the function: what it changes in them is seen
                neither by the window's next firing nor by other windows. Empty where an evictor took them all.

        Returns:
            The records to emit, in order; a generator will do, and None emits nothing. They carry the last timestamp
            of the window. Each is emitted as it is at that moment.
        """

    def clear(self, context: ProcessWindowContext[W]) -> None:
        """Called when the window is cleaned up, to clear what :attr:`ProcessWindowContext.global_state` holds for it.

        Per-window state goes by itself afterwards.

        Args:
            context: The window, the time and state; it is not to be kept beyond the call.
        """


class ProcessAllWindowFunction(DescribedFunction, ABC, Generic[T_contra, R_co, W]):
    """As :class:`ProcessWindowFunction`, for windows of a stream without keys."""

    @abstractmethod
    def process(self, context: ProcessWindowContext[W], elements: Sequence[T_contra]) -> Iterable[R_co] | None:
        """Called at each firing of a window that has contents; see :meth:`ProcessWindowFunction.process`.

        Args:
            context: The window, the time, state and side outputs; not to be kept beyond the call.
            elements: The contents in order of arrival.

        Returns:
            The records to emit, in order; a generator will do, and None emits nothing.
        """

    def clear(self, context: ProcessWindowContext[W]) -> None:
        """Called when the window is cleaned up; see :meth:`ProcessWindowFunction.clear`.

        Args:
            context: The window, the time and state; it is not to be kept beyond the call.
        """

"""Defines the sinks that workers write while they compute a batch, and the task that writes one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from windrow.plan import Step

# Any in this module: elements of every type, and pyarrow has no types.


class WorkerTask(ABC):
    """Writes the elements of one task of a batch to one sink."""

    number = 0
    """Orders the elements of the next write among those of all tasks, as ``sequence_number`` of the exchange does."""

    @abstractmethod
    def write(self, values: Sequence[Any]) -> int:
        """Writes elements; returns how many bytes they took, 0 if that is unknown."""

    @abstractmethod
    def write_rows(self, rows: Any) -> int:
        """Does what :meth:`write` does, for the elements of an Arrow batch; only sinks that take columns get some."""

    def take_names(self) -> Sequence[bytes]:
        """Returns the names of the files that were created since the last call, or what else the driver publishes."""
        return ()

    def finish(self) -> None:  # noqa: B027  nothing to do by default
        """Commits what was written, as the last call of a task that succeeds."""

    @abstractmethod
    def close(self) -> None:
        """Closes what the task has opened; what was not committed is taken back."""


class WorkerSink(ABC):
    """A sink that workers write; it is sent to them. Its step comes without the steps upstream."""

    step: Step
    needs_division: ClassVar[bool] = False
    """Whether a batch that runs again has to be divided into tasks as it was."""
    keeps_order: ClassVar[bool] = False
    """Whether the target shows in which order a task has written elements, or keeps the last one of several."""

    @abstractmethod
    def task(self, batch: int) -> WorkerTask:
        """Returns the writer of a task, in a worker."""

    def check(self, batch: int, division: str, *, again: bool) -> None:  # noqa: B027  most targets have no numbers
        """Refuse the first batch of a run if the target has a later one; the driver calls this.

        Args:
            batch: The number of the batch.
            division: What decides which element is in which task; "": it cannot change.
            again: Whether the checkpoint had begun the batch before.
        """

    def begin(self, batch: int) -> None:  # noqa: B027  nothing to do by default
        """Prepare the target before the tasks of a batch begin; the driver calls this."""

    def publish(self, batch: int, names: Sequence[bytes]) -> None:  # noqa: B027  nothing to do by default
        """Publish the files that the tasks of a batch have written, by name; the driver calls this.

        The names are those that tasks which have succeeded gave, in no order.
        """

"""The base class for sinks that users and packages write themselves; both engines write to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from windrow.sinks import Sink

__all__ = ["CustomSink", "SinkContext"]

T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Describes who writes to a sink; given to :meth:`CustomSink.open`.

    Attributes:
        run: The identity of the run. A run that goes on from a checkpoint has that of the run before; no other does.
        partition: The partition of the batch whose elements this worker writes, from 0; None on the driver.
    """

    run: str
    partition: int | None


class CustomSink(Sink[T_contra]):
    """A sink of your own: an engine opens it, gives it the elements of each batch, and closes it.

    ``class Alerts(CustomSink[Alert])`` takes streams whose elements are of type ``Alert``.

    **Exactly once.** Batches are numbered from 0. After a failure the run goes on with the batch that was not
    finished, under its number and with the same elements, though maybe in another order. A sink that replaces what it
    wrote under a number, or skips a number that it has noted together with the elements, takes each element once. It
    tells runs apart by ``context.run``, as each run without a checkpoint begins at 0.

    **On the driver**, where a sink writes by default, ``open`` is called before the first batch, ``write`` once for
    each batch that has elements, and ``close`` when the run is over.

    **On the workers**, with :attr:`on_workers`, each task of a batch that has elements for the sink has a copy of it:
    ``open``, ``write`` for each piece of its partition, ``close``. The sink has to be picklable, so ``open`` makes
    connections and files. A task that failed runs again: what is written belongs under the number of the batch and
    ``context.partition``, and ``open`` or the first ``write`` replaces what an earlier attempt left there. In a
    plan with keyed steps a batch that is written again has the partitions that it had. Without keyed steps they follow
    from the files and the cores, so a run on other cores may divide the batch differently: such a sink replaces
    elements by keys of their own, or writes on the driver. The interpreter has one partition, 0.
    """

    @property
    def on_workers(self) -> bool:
        """Whether workers write, side by side, and not the driver."""
        return False

    def open(self, context: SinkContext) -> None:
        """Called before the first ``write``: on the driver once a run, on a worker once a task."""

    @abstractmethod
    def write(self, batch: int, rows: Sequence[T_contra]) -> None:
        """Write elements of a batch.

        Args:
            batch: The number of the batch, from 0.
            rows: At least one element: all of the batch on the driver, a piece of a partition on a worker.

        Raises:
            Exception: Whatever it raises fails the run, as a :class:`~windrow.errors.UserFunctionError` with the step;
                a :class:`~windrow.errors.SinkError` goes through as it is.
        """

    def close(self) -> None:
        """Called after the last ``write``, also where one failed; not where ``open`` failed."""

    def describe(self) -> str:
        return type(self).__name__

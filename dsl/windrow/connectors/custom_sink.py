"""The base class for sinks that users and packages write themselves; both engines write to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from windrow.errors import UnsupportedOperationError
from windrow.sinks import Sink

T_contra = TypeVar("T_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Describes who writes to a sink; given to :meth:`CustomSink.open`.

    Attributes:
        run: The identity of the run. A run that goes on from a checkpoint has that of the run before; no other does.
        partition: The partition of the batch whose elements this worker writes, from 0; None on the driver.
        sink: The label of the sink, which no other one of its class has in the plan. A run that goes on finds it again
            by the name of the step, or by what the sink writes.
    """

    run: str
    partition: int | None
    sink: str = ""


class CustomSink(Sink[T_contra]):
    """A sink of your own: an engine opens it, gives it the elements of each batch, and closes it.

    ``class Alerts(CustomSink[Alert])`` takes streams whose elements are of type ``Alert``.

    A class has ``write``, which takes elements, or :meth:`write_arrow`, which takes them as Arrow data. Where it has
    both, ``write_arrow`` is called; what is said of ``write`` here holds for it, too.

    **Exactly once.** Batches are numbered from 0. After a failure the run goes on with the batch that was not
    finished, under its number and with the same elements, though maybe in another order. A sink that replaces what it
    wrote under a number, or skips a number that it has noted together with the elements, takes each element once. It
    tells runs apart by ``context.run``, as each run without a checkpoint begins at 0, and sinks that write to one place
    by ``context.sink``. A checkpoint that was restored from an older copy has other elements under numbers that the
    sink may have: :meth:`newest_batch` has its runs refused.

    **On the driver**, where a sink writes by default, ``open`` is called before the first batch, ``write`` once for
    each batch that has elements, and ``close`` when the run is over.

    **On the workers**, with :attr:`on_workers`, each task of a batch that has elements for the sink has a copy of it:
    ``open``, ``write`` for each portion of its partition, ``close``. The sink has to be picklable, so ``open`` makes
    connections and files. A task that failed runs again: what is written belongs under the number of the batch and
    ``context.partition``, and ``open`` or the first ``write`` replaces what an earlier attempt left there. A batch
    that is written again has the partitions that it had, on other cores too. Without keyed steps there are exceptions:
    over Spark Connect, and where a DataFrame divides itself by the cores, such a sink replaces elements by keys of
    their own, or writes on the driver. The interpreter has one partition, 0.
    """

    connector_name = "custom"
    called_for_effect: ClassVar[tuple[str, ...]] = ("open", "write", "close")

    @property
    def on_workers(self) -> bool:
        """Whether workers write, side by side, and not the driver."""
        return False

    def open(self, context: SinkContext) -> None:
        """Called before the first ``write``: on the driver once a run, on a worker once a task.

        Args:
            context: The identity of the run, and on a worker the partition whose elements it writes.
        """

    def newest_batch(self) -> int | None:
        """Returns the number of the newest batch that the target has of ``context.run``; None: it has or notes none.

        On Spark a sink on the driver is asked after :meth:`open`, before the first batch of a run with a checkpoint is
        written to any sink. A run whose checkpoint is older is refused. Sinks on the workers are not asked.
        """
        return None

    @property
    def needs_schema(self) -> bool:
        return takes_arrow(self)

    def write(self, batch: int, rows: Sequence[T_contra]) -> None:
        """Write elements of a batch.

        Args:
            batch: The number of the batch, from 0.
            rows: At least one element: all of the batch on the driver, a portion of a partition on a worker.

        Raises:
            Exception: Whatever it raises fails the run, as a :class:`~windrow.errors.UserFunctionError` with the step;
                a :class:`~windrow.errors.SinkError` goes through as it is.
        """
        raise UnsupportedOperationError("this sink takes Arrow data", given=self.describe(), expected="write_arrow")

    # Any: a pyarrow.Table, which has no types without a further package.
    def write_arrow(self, batch: int, rows: Any) -> None:
        """Write elements of a batch, as Arrow data.

        The columns are the fields of the element type; an element type without fields has one column, ``value``.
        Elements that a step gives as columns come without a Python object for each.

        Args:
            batch: The number of the batch, from 0.
            rows: A ``pyarrow.Table`` with at least one row: all of the batch on the driver, a portion of a partition
                on a worker.

        Raises:
            Exception: As :meth:`write`.
        """
        raise UnsupportedOperationError("this sink takes elements", given=self.describe(), expected="write")

    def close(self) -> None:
        """Called after the last ``write``, also where one failed; not where ``open`` failed."""

    def is_same_place(self, other: Sink[Any]) -> bool:
        return self == other

    def misfits_of(self, element_type: object | None) -> Iterator[tuple[str, str]]:
        if not takes_arrow(self) and type(self).write is CustomSink.write:
            yield (
                f"the sink {type(self).__name__} has neither write nor write_arrow",
                "write takes elements, and write_arrow takes them as Arrow data",
            )

    def describe(self) -> str:
        return type(self).__name__


# Any: sinks of elements of every type.
def takes_arrow(sink: CustomSink[Any]) -> bool:
    """Whether a sink takes its elements as Arrow data."""
    return type(sink).write_arrow is not CustomSink.write_arrow

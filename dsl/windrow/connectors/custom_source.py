"""The base class for sources that users and packages write themselves; both engines read them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from windrow.arrow import ArrowArray, ArrowStream
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.sources import MalformedRecord, OnMalformed, Source

T_co = TypeVar("T_co", covariant=True)
P = TypeVar("P")


class CustomSource(Source[T_co], Generic[T_co, P]):
    """A source of your own: it says how far each of its partitions reaches, and reads from one offset to another.

    ``class Orders(CustomSource[Order, int])`` gives elements of type ``Order``, and counts its offsets in whole
    numbers. An offset is whatever JSON can hold: a number, a text, None, or lists and dicts of these. Spark keeps
    offsets in its checkpoint. After a failure it reads the same range again, so each element takes effect exactly once
    as long as the same two offsets give the same elements.

    Spark's workers read the partitions of a batch side by side, each with a copy of the source: it has to be
    picklable, so ``read`` opens connections and files. The interpreter reads one partition after the other.

    A class has ``read``, which gives elements one by one, or :meth:`read_arrow`, which gives them as Arrow data. Where
    it has both, ``read_arrow`` is called.

    Elements have no timestamps yet: :meth:`~windrow.DataStream.assign_timestamps_and_watermarks` gives them some.
    """

    connector_name = "custom"
    has_offsets = True

    @property
    def element_type(self) -> object | None:
        """The type of the elements. By default it is None, and a stream takes the first type argument of the class."""
        return None

    @property
    def on_malformed(self) -> OnMalformed:
        """What happens to each :class:`~windrow.sources.MalformedRecord` that ``read`` gives."""
        return "fail"

    @property
    def is_bounded(self) -> bool:
        """Whether the source ends at its latest offset; by default it is a stream without an end."""
        return False

    def check_part(self, *, follows: bool) -> None:
        reads_arrow(self)

    def partitions(self) -> Sequence[str]:
        """The names of the partitions. More of them may come while the pipeline runs; one by default.

        Each makes a watermark of its own; that of the stream is the least of them. One that is no longer named, or of
        a bounded source and read to its end, does not count.
        """
        return ("all",)

    @abstractmethod
    def initial_offset(self, partition: str) -> P:
        """Where a partition begins. It is asked once for each partition, and then kept.

        Args:
            partition: The name of the partition.
        """

    @abstractmethod
    def latest_offset(self, partition: str) -> P:
        """Where a partition ends now: after its last element. It must never go back; a lower number fails the run.

        Args:
            partition: The name of the partition.
        """

    def next_offset(self, partition: str, start: P, latest: P) -> P:
        """Where the next batch ends that begins at ``start``: by default at ``latest``.

        A source that limits its batches returns an offset between the two. A run that reads to the end fails where
        no partition moves on and one is short of it. Spark asks from version 4.2 on; older ones take all that there is.

        Args:
            partition: The name of the partition.
            start: The offset at which the batch begins.
            latest: What :meth:`latest_offset` has returned.
        """
        return latest

    def read(self, partition: str, start: P, end: P) -> Iterable[T_co | MalformedRecord]:
        """The elements of a partition from ``start`` up to ``end``, the same ones each time.

        A :class:`~windrow.sources.MalformedRecord` among them goes where ``on_malformed`` says.

        Args:
            partition: The name of the partition.
            start: The offset of the first element.
            end: The offset after the last one.
        """
        raise UnsupportedOperationError("this source gives Arrow data", given=self.describe(), expected="read_arrow")

    def read_arrow(self, partition: str, start: P, end: P) -> Iterable[ArrowArray | ArrowStream | MalformedRecord]:
        """The elements of a partition from ``start`` up to ``end`` as Arrow data, the same ones each time.

        The columns have the names of the element type's fields; others are ignored. An element type without fields has
        one column, ``value``. Steps that run on columns get the data without a Python object for each row. A row that
        does not fit the element type is malformed, and goes where ``on_malformed`` says, as does a
        :class:`~windrow.sources.MalformedRecord` among the data.

        Args:
            partition: The name of the partition.
            start: The offset of the first element.
            end: The offset after the last one.

        Returns:
            Objects of any library that speaks the Arrow PyCapsule interface, such as record batches and tables.

        Raises:
            SourceError: The run raises it where a column is missing, or its type is not that of the field.
        """
        raise UnsupportedOperationError("this source gives elements one by one", given=self.describe(), expected="read")

    def commit(self, partition: str, offset: P) -> None:
        """Called when nothing before ``offset`` will be read again. It may come late, twice, or never at the end.

        Args:
            partition: The name of the partition.
            offset: The offset after the last element that was read.
        """

    def describe(self) -> str:
        return type(self).__name__


def reads_arrow(source: CustomSource[Any, Any]) -> bool:
    """Whether a source gives its elements as Arrow data.

    Raises:
        InvalidArgumentError: If its class has neither ``read`` nor ``read_arrow``.
    """
    class_ = type(source)
    if class_.read_arrow is not CustomSource.read_arrow:
        return True
    if class_.read is CustomSource.read:
        raise InvalidArgumentError(
            "a source of your own reads its elements",
            given=f"{class_.__name__}, without read and read_arrow",
            expected="a class that has one of the two methods",
            hint="read gives elements one by one, and read_arrow gives them as Arrow data",
        )
    return False

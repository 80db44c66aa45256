"""Begins pipelines, by functions each of which makes a stream of a source."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any, TypeVar, overload

from typing_extensions import TypeForm

from windrow.arrow import ArrowArray, ArrowStream
from windrow.builder.stream import DataStream
from windrow.connectors.custom_source import CustomSource, reads_arrow
from windrow.plan.location import AtCaller, refusal
from windrow.plan.nodes import SourceNode
from windrow.plan.types import base_argument
from windrow.sources import (
    ArrowSource,
    CollectionSource,
    DataFrameSource,
    OnMalformed,
    Source,
    SparkDataFrame,
    check_on_malformed,
)

T = TypeVar("T")


def from_source(source: Source[T], *, name: str | None = None) -> DataStream[T]:
    """A stream that reads from ``source``.

    Args:
        source: Reads the elements, such as a :class:`~windrow.sources.JsonFileSource`; an instance, not the class.
        name: Names the step.

    Raises:
        InvalidArgumentError: If it is no source, its ``on_malformed`` is unknown, or its ``is_bounded`` is no bool.

    Example:
        >>> from windrow import from_source
        >>> from windrow.sources import TextFileSource
        >>> from_source(TextFileSource("logs/*.txt"), name="logs")
        DataStream(...)
    """
    if not isinstance(source, Source):
        raise refusal(
            "a stream reads from a source",
            given=source,
            expected="a windrow Source",
            hint="an instance, not the class"
            if isinstance(source, type)
            else "from_collection(elements) for elements of your program",
        )
    with AtCaller():
        check_on_malformed(source.on_malformed)
        if isinstance(source, CustomSource):
            reads_arrow(source)
    is_bounded: object = source.is_bounded
    if not isinstance(is_bounded, bool):
        # A method would be true, and the stream one that ends.
        raise refusal(
            "is_bounded says whether a source ends at its latest offset",
            given=is_bounded,
            expected="True or False",
            hint="@property before a method" if callable(is_bounded) else None,
        )
    element_type = source.element_type
    if element_type is None:
        element_type = base_argument(source, Source, 0)
    return DataStream(SourceNode(source=source, name=name, element_type=element_type))


@overload
def from_collection(
    elements: Iterable[T], *, batch_size: int | None = None, name: str | None = None
) -> DataStream[T]: ...
@overload
def from_collection(
    elements: Iterable[T], element_type: TypeForm[T], *, batch_size: int | None = None, name: str | None = None
) -> DataStream[T]: ...
def from_collection(
    elements: Iterable[T], element_type: object | None = None, *, batch_size: int | None = None, name: str | None = None
) -> DataStream[T]:
    """A stream of the given elements; see :class:`~windrow.sources.CollectionSource`.

    A batch is judged under the watermark of the batches before it, so an element of a collection can be late only with
    a ``batch_size``: with 1 the watermark moves between any two elements.

    Args:
        elements: The elements; they are copied.
        element_type: Their type; None: that of the first element, where that is a class without parameters.
        batch_size: How many elements make a batch; None: all are in one.
        name: Names the step.

    Raises:
        InvalidArgumentError: If ``elements`` cannot be iterated over, or ``batch_size`` is not a positive int.

    Example:
        >>> from windrow import from_collection
        >>> from_collection(["a", "b"]).collect()
        ['a', 'b']
    """
    if element_type is None:
        return from_source(CollectionSource(elements, batch_size=batch_size), name=name)
    # The overloads have proved it; here it is an object like any other.
    kind: TypeForm[T] = element_type  # type: ignore[assignment]
    return from_source(CollectionSource(elements, kind, batch_size=batch_size), name=name)


@overload
def from_arrow(
    data: ArrowArray | ArrowStream,
    record_type: TypeForm[T],
    *,
    batch_size: int | None = None,
    on_malformed: OnMalformed = "fail",
    timezone: str | tzinfo | None = None,
    name: str | None = None,
) -> DataStream[T]: ...
@overload
def from_arrow(
    data: ArrowArray | ArrowStream,
    record_type: None = None,
    *,
    batch_size: int | None = None,
    on_malformed: OnMalformed = "fail",
    timezone: str | tzinfo | None = None,
    name: str | None = None,
) -> DataStream[Any]: ...
# Any: a type checker does not know the columns of data.
def from_arrow(
    data: ArrowArray | ArrowStream,
    record_type: TypeForm[T] | None = None,
    *,
    batch_size: int | None = None,
    on_malformed: OnMalformed = "fail",
    timezone: str | tzinfo | None = None,
    name: str | None = None,
) -> DataStream[Any]:
    """A stream of the rows of a table or data frame of pandas, polars, DuckDB, pyarrow or another library.

    See :class:`~windrow.sources.ArrowSource`. Without ``record_type`` the elements have a field for each column::

        totals = from_arrow(frame).key_by(lambda row: row.zone).sum(lambda row: row.price)

    Args:
        data: The rows, such as a ``pyarrow.Table``, a polars or pandas data frame, or a reader of record batches.
        record_type: The type of the elements, whose fields are the columns; None: a record with a field for each
            column.
        batch_size: How many rows make a batch; None: all are in one.
        on_malformed: What becomes of rows that do not fit the type.
        timezone: Where the clock of timestamp columns without a zone is; None: such columns do not fit.
        name: Names the step.

    Raises:
        InvalidArgumentError: If the data do not speak the Arrow PyCapsule interface, an argument has an unknown value,
            or a column has no name of a field, or no type of elements, where the type is derived.
        SourceError: If the type is derived, and the data cannot be taken.
        UnsupportedOperationError: If the type is derived, and pyarrow is not installed.
    """
    with AtCaller():
        source: ArrowSource[T] = ArrowSource(
            data, record_type, batch_size=batch_size, on_malformed=on_malformed, timezone=timezone
        )
    return from_source(source, name=name)


from_pandas = from_arrow
"""The same function, by the name under which users of pandas look for it."""

from_polars = from_arrow
"""The same function, by the name under which users of polars look for it."""


def from_dataframe(
    dataframe: SparkDataFrame,
    record_type: TypeForm[T],
    *,
    on_malformed: OnMalformed = "fail",
    timezone: str | tzinfo | None = None,
    name: str | None = None,
) -> DataStream[T]:
    """A stream of the rows of a Spark DataFrame, static or streaming; see :class:`~windrow.sources.DataFrameSource`.

    Args:
        dataframe: The DataFrame; columns that the record type does not name are left out.
        record_type: The type of the records.
        on_malformed: What becomes of rows that do not fit the type.
        timezone: Where the clock of timestamp columns without a zone is; None: such columns do not fit.
        name: Names the step.

    Raises:
        InvalidArgumentError: If it is no DataFrame of Spark, ``on_malformed`` is unknown, or Python does not know the
            time zone.
    """
    source = DataFrameSource(dataframe, record_type, on_malformed=on_malformed, timezone=timezone)
    return from_source(source, name=name)

"""Sources: where a pipeline reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

from typing_extensions import TypeForm

from windrow.addresses.datasets import Dataset, path_dataset
from windrow.addresses.paths import check_pattern, checked_path, is_object_address, local_path
from windrow.addresses.redaction import redact_address, secrets_in, secrets_in_address
from windrow.arrow import ArrowArray, ArrowStream
from windrow.calls.attributes import attribute_of
from windrow.calls.other_names import unknown_name
from windrow.counts import check_positive
from windrow.distribution import install_hint
from windrow.entry_points import load
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, require_callable
from windrow.tags import OutputTag
from windrow.text_options import (
    checked_delimiter,
    checked_encoding,
    checked_flag,
    checked_names,
    checked_number_signs,
    checked_texts,
    checked_timezone,
)

__all__ = [
    "ArrowSource",
    "CollectionSource",
    "CsvFileSource",
    "DataFrameSource",
    "FileSource",
    "FilesInOrder",
    "JsonFileSource",
    "MalformedRecord",
    "OnMalformed",
    "ParquetFileSource",
    "RateRecord",
    "RateSource",
    "SocketSource",
    "SortKey",
    "Source",
    "TextFileSource",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A record that does not fit its record type.

    Attributes:
        raw: The record as it was read, shortened.
        reason: What is wrong, with the field.
        origin: The file, and the line where the format has lines.
    """

    raw: str
    reason: str
    origin: str


OnMalformed = Literal["fail", "drop"] | OutputTag[MalformedRecord]
"""What happens to malformed records. The run fails, or they are counted and left out (``records_malformed``), or they
go to a side output."""


def check_on_malformed(on_malformed: OnMalformed) -> None:
    """Refuse an unknown value of ``on_malformed``; sources call this.

    Raises:
        InvalidArgumentError: If it is neither ``"fail"`` nor ``"drop"`` nor an ``OutputTag``.
    """
    if on_malformed not in ("fail", "drop") and not isinstance(on_malformed, OutputTag):
        raise InvalidArgumentError(
            "on_malformed has an unknown value",
            given=on_malformed,
            expected='"fail", "drop" or an OutputTag',
            hint="@property before a method" if callable(on_malformed) else None,
        )


class Source(ABC, Generic[T_co]):
    """Where elements come from.

    Attributes:
        connector_name: The name under which the package of the source registers what reads it, in the entry points
            ``windrow.readers``.
        reading_hint: What to do instead where the interpreter cannot read the source.
    """

    connector_name: ClassVar[str] = ""
    reading_hint: ClassVar[str] = "run the pipeline with SparkRunner"
    has_timestamps: ClassVar[bool] = False
    """Whether the elements come with timestamps, so that none need be assigned."""
    has_malformed: ClassVar[bool] = True
    """Whether there may be malformed records."""
    has_offsets: ClassVar[bool] = False
    """Whether the source is read from offsets that it gives, so that it may go on where another one ended."""

    @property
    @abstractmethod
    def element_type(self) -> object | None:
        """The type of the elements, or None where it is not known."""

    @property
    def on_malformed(self) -> OnMalformed:
        """What happens to malformed records."""
        return "fail"

    @property
    def is_bounded(self) -> bool:
        """Whether the source comes to an end by itself."""
        return True

    @property
    def is_endless(self) -> bool:
        """Whether it is known that the source never comes to an end."""
        return not self.is_bounded

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that no plan, log or error may show, such as passwords among options; the longest first."""
        return ()

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The names of what the source reads, for lineage; none of what has no name elsewhere, such as a collection."""
        return ()

    @property
    def read_folders(self) -> Sequence[str]:
        """The paths below which the source reads files, into which no sink of the plan may write."""
        return ()

    @property
    def held_elements(self) -> Sequence[object]:
        """The elements that the program holds, whose classes state and workers have to know."""
        return ()

    @property
    def decoded_type(self) -> object | None:
        """The type that is decoded from each record, or None where that is the type of the elements."""
        return None

    def check_part(self, *, follows: bool) -> None:
        """Refuse to be a part of a :class:`~windrow.connectors.HybridSource`, as most sources do.

        Args:
            follows: Whether another part comes before it.

        Raises:
            WindrowError: If it cannot be a part.
        """
        raise UnsupportedOperationError(
            "this source cannot be a part of a hybrid one",
            given=self.describe(),
            expected="files, a collection, Arrow data, topics that confluent-kafka reads, or a CustomSource",
            hint="Spark writes the rows of a DataFrame to files, which ParquetFileSource reads",
        )

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain()``."""

    def __repr__(self) -> str:
        name, text = type(self).__name__, self.describe()
        return f"{name}({'' if text == name else text})"


class CollectionSource(Source[T]):
    """Elements given in the program: for tests and examples.

    Args:
        elements: The elements; they are copied.
        element_type: Their type; by default that of the first element, where that is a class without parameters.
        batch_size: How many elements make a batch; by default all are in one.
    """

    connector_name = "collection"
    has_malformed = False

    @overload
    def __init__(self, elements: Iterable[T], *, batch_size: int | None = None) -> None: ...
    @overload
    def __init__(self, elements: Iterable[T], element_type: TypeForm[T], *, batch_size: int | None = None) -> None: ...
    def __init__(
        self, elements: Iterable[T], element_type: object | None = None, *, batch_size: int | None = None
    ) -> None:
        if not isinstance(elements, Iterable):
            raise InvalidArgumentError(
                "a collection source needs elements", given=elements, expected="an iterable, such as a list"
            )
        self.elements: tuple[T, ...] = tuple(elements)
        if batch_size is not None:
            check_positive(batch_size, "the batch size")
        self.batch_size = batch_size
        self._element_type: object | None = element_type
        if element_type is None and self.elements:
            first = type(self.elements[0])
            if first not in (tuple, list, dict, set, frozenset) and all(
                type(element) is first for element in self.elements
            ):
                self._element_type = first

    @property
    def element_type(self) -> object | None:
        return self._element_type

    @property
    def held_elements(self) -> Sequence[object]:
        return self.elements

    def check_part(self, *, follows: bool) -> None:
        pass  # any place is accepted

    def describe(self) -> str:
        return f"collection of {len(self.elements)}"


class ArrowSource(Source[T]):
    """Rows of a library that speaks the Arrow PyCapsule interface: a table or a data frame of the program.

    Args:
        data: The rows, such as a ``pyarrow.Table``, a polars or pandas data frame, a relation of DuckDB, or a reader of
            record batches. A reader is read whole by the first run.
        record_type: The type of the elements, whose fields are the columns; others are left out. A type without fields
            has one column, ``value``. By default it is derived, for which pyarrow reads the data at once: a frozen
            dataclass ``Row`` with a field for each column, which may be None where the column has a null, in whichever
            batch. Libraries say of nearly every column that it may have some, so the data tell. A later run on data
            with nulls in other columns has another type: give a record type where that may be. The index of a pandas
            data frame is a column if it has a name.
        batch_size: How many rows make a batch; by default all are in one.
        on_malformed: What becomes of rows that do not fit the type, such as those with a null where it has no None.
            pandas has NaN for a missing number, and hands over a null.
        timezone: Where the clock of timestamp columns without a zone is, as for :class:`JsonFileSource`. Without it
            such columns do not fit.

    Raises:
        InvalidArgumentError: If the data do not speak the interface, an argument has an unknown value, or a column has
            no name of a field, or no type of elements, where the type is derived.
        SourceError: If the type is derived, and the data cannot be taken.
        UnsupportedOperationError: If the type is derived, and pyarrow is not installed.
    """

    connector_name = "arrow"

    def __init__(
        self,
        data: ArrowArray | ArrowStream,
        record_type: TypeForm[T] | None = None,
        *,
        batch_size: int | None = None,
        on_malformed: OnMalformed = "fail",
        timezone: str | tzinfo | None = None,
    ) -> None:
        if not hasattr(type(data), "__arrow_c_stream__") and not hasattr(type(data), "__arrow_c_array__"):
            raise InvalidArgumentError(
                "an Arrow source reads what speaks the Arrow PyCapsule interface",
                given=type(data),
                expected="an object with __arrow_c_stream__ or __arrow_c_array__",
                hint="pyarrow.Table.from_pandas(frame) and from_pylist(rows) make one; from_collection takes elements",
            )
        if batch_size is not None:
            check_positive(batch_size, "the batch size")
        check_on_malformed(on_malformed)
        self.data = data
        self.batch_size = batch_size
        self._on_malformed: OnMalformed = on_malformed
        self.timezone = checked_timezone(timezone)
        # Any: the table that an engine makes of the data, once, since some can be read only once.
        self.table: Any = None
        self.record_type: TypeForm[T] = self._derived() if record_type is None else record_type

    def _derived(self) -> TypeForm[T]:
        """The type of the rows by the columns of the data, which become a table."""
        reader = load("windrow.readers", self.connector_name)
        try:
            derived: TypeForm[T] = reader.derived_type(self)
        except ModuleNotFoundError as error:
            raise UnsupportedOperationError(
                "the type of the rows is derived by pyarrow",
                given=f"{self.describe()}, without {error.name}",
                expected="pyarrow, or a record type",
                hint=install_hint("spark"),
            ) from error
        return derived

    @property
    def element_type(self) -> object:
        return self.record_type

    @property
    def on_malformed(self) -> OnMalformed:
        return self._on_malformed

    def check_part(self, *, follows: bool) -> None:
        pass  # any place is accepted

    def describe(self) -> str:
        return f"Arrow data of a {type(self.data).__name__}"


class SortKey(Protocol):
    """A value that compares with others of its kind by ``<``, such as a number, a text, a date or a tuple of these."""

    def __lt__(self, other: Any, /) -> bool:  # each type says itself with what it compares
        """Whether this key comes before the other one."""
        ...


FilesInOrder = Literal["time", "name"] | Callable[[str], SortKey]
"""How the files of a source follow each other, see :class:`FileSource`."""


def _check_files_in_order(files_in_order: FilesInOrder) -> None:
    expected = '"time", "name" or a function that gives a sort key for the path of a file'
    if callable(files_in_order):
        require_callable(files_in_order, "the order of files", expected, takes="path")
    elif files_in_order not in ("time", "name"):
        raise InvalidArgumentError("files_in_order has an unknown value", given=files_in_order, expected=expected)


class FileSource(Source[T]):
    """Files of one format below a path, read as records.

    A file whose name ends in ``.gz``, ``.bz2``, ``.zst`` or ``.deflate`` is decompressed, but for Parquet.

    Args:
        path: A file, or a folder whose files are read, those in folders below and those added later too, while the
            pipeline runs on Spark. Names that begin with ``_`` or ``.`` are passed over. A link that leads out
            of the path fails the run: a file is read only where it lies below the path. The path is literal wherever
            something has that name; elsewhere ``*``, ``?``, ``[ab]`` and ``{x,y}`` are wildcards, and the path may not
            go up after them.
        record_type: The type of the records.
        on_malformed: What becomes of records that do not fit the type.
        files_per_batch: How many files make a batch, in the order of ``files_in_order``; by default all that are
            there. It has no effect in ``SparkRunner.run_batch``, which reads all at once. In the order ``"time"`` Spark
            divides files of one millisecond into batches in any order. Where Spark reads the files, as on HDFS, those
            of a batch come in an order of its own: 1 keeps that of their modification there. While more files are
            to come, the watermark after a batch is the least of those of its files.
        files_in_order: In which order the files are read that are there when a batch is planned. ``"time"``: by the
            time of their modification, in which a copied or downloaded folder may have any order. ``"name"``: by their
            paths below the source, folder by folder, in which digits count as numbers: ``part-9`` comes before
            ``part-10``. A function: by the sort key that it gives for the path below the source, such as
            ``"day=2026-01-31/a.json"``, or for the name if the source is one file; those of one key by name. It is
            called on the driver, once or more for each file, and has to give the same key each time; keys have to
            compare by ``<``. On Spark other orders than ``"time"`` are for mounted file systems and S3.
        partitions: The fields that the names of folders give, such as ``day=2026-01-31``, as sinks write them with
            ``partition_by``, and Spark and Hive do. The names count, not their order. Percent signs stand for codes
            of characters, ``__HIVE_DEFAULT_PARTITION__`` for null. A file whose folders do not fit the fields is one
            malformed record. On Spark only in mounted file systems and on S3.

    Raises:
        InvalidArgumentError: If ``partitions`` has an empty name, or one twice, or ``files_in_order`` is unknown.
    """

    connector_name = "files"
    format_name = "files"

    def __init__(
        self,
        path: str | PathLike[str],
        record_type: TypeForm[T],
        *,
        on_malformed: OnMalformed = "fail",
        files_per_batch: int | None = None,
        files_in_order: FilesInOrder = "time",
        partitions: str | Sequence[str] = (),
    ) -> None:
        check_on_malformed(on_malformed)
        if files_per_batch is not None:
            check_positive(files_per_batch, "files_per_batch")
        self.path = checked_path(path, "files are read from")
        check_pattern(self.path)
        self.record_type = record_type
        self.files_per_batch = files_per_batch
        _check_files_in_order(files_in_order)
        self.files_in_order = files_in_order
        self._on_malformed: OnMalformed = on_malformed
        self.partitions = checked_names(partitions, "partitions of a file source")

    @property
    def element_type(self) -> object:
        return self.record_type

    @property
    def on_malformed(self) -> OnMalformed:
        return self._on_malformed

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The path, as it is given, with its wildcards."""
        return (path_dataset(self.path),)

    @property
    def read_folders(self) -> Sequence[str]:
        return (self.path,)

    def check_part(self, *, follows: bool) -> None:
        if local_path(self.path) is None and not is_object_address(self.path):
            raise UnsupportedOperationError(
                "files are a part of a hybrid source in mounted file systems and on s3a:// only",
                given=self.describe(),
                expected="a path, a file: URI, or an address s3a://",
                hint="mount the file system, or copy the files",
            )

    @property
    def shown_path(self) -> str:
        """The path as ``explain()`` and errors show it, without the secrets that an address may hold."""
        return redact_address(self.path)

    @property
    def secrets(self) -> tuple[str, ...]:
        return secrets_in_address(self.path)

    def describe(self) -> str:
        order = self.files_in_order
        name = order if isinstance(order, str) else attribute_of(order, "__qualname__", type(order).__qualname__)
        return f"{self.format_name} {self.shown_path}" + ("" if order == "time" else f", files by {name}")


class TextFileSource(FileSource[str]):
    """Files of text; each line is an element, without its end. LF, CRLF and a lone CR end a line.

    See :class:`FileSource` for the path, ``files_per_batch`` and ``files_in_order``; besides:

    Args:
        encoding: How the characters are written, by a name that Python knows. A byte order mark at the beginning of a
            file is left out.
        on_malformed: What becomes of lines with bytes that are no characters of the encoding.

    Raises:
        InvalidArgumentError: For an encoding that Python does not know.
    """

    format_name = "text"

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        encoding: str = "utf-8",
        on_malformed: OnMalformed = "fail",
        files_per_batch: int | None = None,
        files_in_order: FilesInOrder = "time",
    ) -> None:
        super().__init__(
            path, str, on_malformed=on_malformed, files_per_batch=files_per_batch, files_in_order=files_in_order
        )
        self.encoding = checked_encoding(encoding)


class JsonFileSource(FileSource[T]):
    """Files with one JSON object on each line, of at most 67,108,864 bytes. LF, CRLF and a lone CR end a line.

    See :class:`FileSource`; besides:

    Args:
        encoding: How the characters are written, by a name that Python knows. A byte order mark at the beginning of a
            file is left out. A line with bytes that are no characters of the encoding is malformed.
        timezone: Where the clock of dates and times without an offset is: a name such as ``"Europe/Berlin"``, or a
            ``tzinfo``. Without it such values are malformed. A time that this clock shows twice is the first of the
            two; one that it skips is read with the offset from before the gap, as Python does with ``fold=0``.
        lines: Whether each line is a record. With False a file is one array of records, or has records after each
            other, with any line ends; it is read row by row, and a record has at most 67,108,864 characters.

    Raises:
        InvalidArgumentError: For an encoding or a time zone that Python does not know.
    """

    format_name = "json"

    def __init__(
        self,
        path: str | PathLike[str],
        record_type: TypeForm[T],
        *,
        encoding: str = "utf-8",
        timezone: str | tzinfo | None = None,
        lines: bool = True,
        on_malformed: OnMalformed = "fail",
        files_per_batch: int | None = None,
        files_in_order: FilesInOrder = "time",
        partitions: str | Sequence[str] = (),
    ) -> None:
        super().__init__(
            path,
            record_type,
            on_malformed=on_malformed,
            files_per_batch=files_per_batch,
            files_in_order=files_in_order,
            partitions=partitions,
        )
        self.encoding = checked_encoding(encoding)
        self.timezone = checked_timezone(timezone)
        self.lines = checked_flag(lines, "lines")


class CsvFileSource(FileSource[T]):
    """Files of comma-separated values with a header line that names the fields.

    An empty value is the field's default, or null where the field is Optional, or else the empty text. In quotes, a
    value may hold delimiters and line ends. A row whose quote is not closed is malformed, and the next line is the next
    row. See :class:`FileSource`, and :class:`JsonFileSource` for ``encoding`` and ``timezone``; besides:

    Args:
        delimiter: The character between values.
        header: Whether the first line names the columns. Without it, columns are the fields of the type in order.
        nulls: The texts that stand for null, such as ``("", "NA")``, in place of the empty one, exactly so and without
            quotes. Null is the field's default, or ``None``; else the row is malformed, but an empty cell is the empty
            text of a ``str``.
        true_values: The texts for ``True``, such as ``("t", "yes", "1")``, in any case of their letters.
        false_values: The texts for ``False``.
        float_names: Whether a float may be ``inf``, ``infinity`` or ``nan``, with a sign and in any case of letters.
            Otherwise it may be ``NaN``, ``Infinity`` or ``-Infinity``, as sinks write it.
        integral_floats: Whether an int may be written as a float without a fraction, such as ``1.0`` or ``1e3``.
        decimal: The sign before the fraction of a number, such as ``","``.
        thousands: The sign between groups of digits of a number, such as ``"."`` or ``" "``; by default none may be.
        encoding: How the characters are written, as for :class:`JsonFileSource`.
        timezone: Where the clock of dates and times without an offset is; None: such values are malformed.

    Raises:
        InvalidArgumentError: For a delimiter or a sign in numbers that is not one character, for a text that is both
            true and false, or an encoding or a time zone that Python does not know.
    """

    format_name = "csv"

    def __init__(
        self,
        path: str | PathLike[str],
        record_type: TypeForm[T],
        *,
        delimiter: str = ",",
        header: bool = True,
        nulls: Sequence[str] = ("",),
        true_values: Sequence[str] = ("true",),
        false_values: Sequence[str] = ("false",),
        float_names: bool = False,
        integral_floats: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        encoding: str = "utf-8",
        timezone: str | tzinfo | None = None,
        on_malformed: OnMalformed = "fail",
        files_per_batch: int | None = None,
        files_in_order: FilesInOrder = "time",
        partitions: str | Sequence[str] = (),
    ) -> None:
        super().__init__(
            path,
            record_type,
            on_malformed=on_malformed,
            files_per_batch=files_per_batch,
            files_in_order=files_in_order,
            partitions=partitions,
        )
        self.delimiter = checked_delimiter(delimiter)
        self.header = checked_flag(header, "header")
        self.nulls = checked_texts(nulls, "nulls")
        self.true_values = checked_texts(true_values, "true_values")
        self.false_values = checked_texts(false_values, "false_values")
        both = {text.lower() for text in self.true_values} & {text.lower() for text in self.false_values}
        if both:
            raise InvalidArgumentError(
                "a text is both true and false", given=", ".join(sorted(both)), expected="each text in one of the two"
            )
        self.float_names = checked_flag(float_names, "float_names")
        self.integral_floats = checked_flag(integral_floats, "integral_floats")
        self.decimal, self.thousands = checked_number_signs(decimal, thousands)
        self.encoding = checked_encoding(encoding)
        self.timezone = checked_timezone(timezone)


class ParquetFileSource(FileSource[T]):
    """Parquet files with a column for each field.

    See :class:`FileSource`; besides:

    Args:
        timezone: Where the clock of timestamp columns without a zone is, as for :class:`JsonFileSource`. Without it
            such columns do not fit.

    Raises:
        InvalidArgumentError: For a time zone that Python does not know.
    """

    format_name = "parquet"

    def __init__(
        self,
        path: str | PathLike[str],
        record_type: TypeForm[T],
        *,
        timezone: str | tzinfo | None = None,
        on_malformed: OnMalformed = "fail",
        files_per_batch: int | None = None,
        files_in_order: FilesInOrder = "time",
        partitions: str | Sequence[str] = (),
    ) -> None:
        super().__init__(
            path,
            record_type,
            on_malformed=on_malformed,
            files_per_batch=files_per_batch,
            files_in_order=files_in_order,
            partitions=partitions,
        )
        self.timezone = checked_timezone(timezone)


class SocketSource(Source[str]):
    """Lines of text from a TCP server, for tests and first steps: lost lines are not sent again.

    The interpreter reads until the server closes the connection. On Spark it is Spark's socket source, a stream without
    an end: :meth:`~windrow_runtime.spark.SparkRunner.start` runs it. It does not go on from a checkpoint that
    has batches. Characters are UTF-8; other bytes read as U+FFFD.

    Args:
        host: The name or the address of the server.
        port: Its port.

    Raises:
        InvalidArgumentError: For an empty host, or a port that is none.
    """

    connector_name = "socket"

    def __init__(self, host: str, port: int) -> None:
        if not isinstance(host, str) or not host:
            raise InvalidArgumentError("a socket source needs a host", given=host, expected="a non-empty string")
        if type(port) is not int or not 0 < port < 65536:
            raise InvalidArgumentError("a socket source needs a port", given=port, expected="an int from 1 to 65535")
        self.host = host
        self.port = port

    @property
    def element_type(self) -> object:
        return str

    @property
    def is_bounded(self) -> bool:
        return False

    def describe(self) -> str:
        return f"socket {self.host}:{self.port}"


class SparkDataFrame(Protocol):
    """A Spark DataFrame, as far as the language looks at it."""

    @property
    def isStreaming(self) -> bool:  # noqa: N802  Spark's name
        """Whether it is a stream."""
        ...

    @property
    def schema(self) -> Any:  # Spark's StructType; the language does not import Spark.
        """The columns."""
        ...


class DataFrameSource(Source[T]):
    """Any Spark DataFrame, static or streaming, whose columns are the fields of the record type. Runs on Spark only.

    Args:
        dataframe: The DataFrame; columns that the record type does not name are left out.
        record_type: The type of the records.
        on_malformed: What becomes of rows that do not fit the type.
        timezone: Where the clock of timestamp columns without a zone is, as for :class:`JsonFileSource`. Without it
            such columns do not fit.
    """

    connector_name = "dataframe"

    def __init__(
        self,
        dataframe: SparkDataFrame,
        record_type: TypeForm[T],
        *,
        on_malformed: OnMalformed = "fail",
        timezone: str | tzinfo | None = None,
    ) -> None:
        if not hasattr(dataframe, "isStreaming") or not hasattr(dataframe, "schema"):
            raise InvalidArgumentError(
                "a DataFrame source reads a Spark DataFrame",
                given=type(dataframe),
                expected="a DataFrame of pyspark.sql",
                hint="spark.createDataFrame(...) makes one of pandas and Arrow tables",
            )
        check_on_malformed(on_malformed)
        self.timezone = checked_timezone(timezone)
        self.dataframe = dataframe
        self.record_type = record_type
        self._on_malformed: OnMalformed = on_malformed

    @property
    def element_type(self) -> object:
        return self.record_type

    @property
    def on_malformed(self) -> OnMalformed:
        return self._on_malformed

    @property
    def is_bounded(self) -> bool:
        """Whether the DataFrame is static."""
        return not self.dataframe.isStreaming

    def describe(self) -> str:
        return f"{'streaming' if self.dataframe.isStreaming else 'static'} DataFrame"


class RateRecord(NamedTuple):
    """A row of Spark's rate source.

    Attributes:
        timestamp: When it was made.
        value: Counts up from 0.
    """

    timestamp: datetime
    value: int


class RateSource(Source[RateRecord]):
    """Spark's rate source makes a fixed number of rows each second. It serves load tests, and runs on Spark only.

    Args:
        rows_per_second: How many rows Spark makes each second.
        options: Further options of Spark's source, such as ``{"rampUpTime": "5s"}``.
    """

    connector_name = "rate"

    def __init__(self, rows_per_second: int = 1, *, options: Mapping[str, str] | None = None) -> None:
        check_positive(rows_per_second, "rows_per_second")
        self.rows_per_second = rows_per_second
        self.options: dict[str, str] = dict(options or {})

    @property
    def element_type(self) -> object:
        return RateRecord

    @property
    def is_bounded(self) -> bool:
        return False

    @property
    def secrets(self) -> tuple[str, ...]:
        return secrets_in(self.options)

    def describe(self) -> str:
        return f"rate {self.rows_per_second}/s"


if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)

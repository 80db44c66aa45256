"""Sinks: where a pipeline writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from windrow.addresses.database_url import DatabaseUrl
from windrow.addresses.datasets import Dataset, path_dataset, table_dataset
from windrow.addresses.paths import checked_path, is_object_address, local_path
from windrow.addresses.redaction import longest_first, redact_address, secrets_in, secrets_in_address
from windrow.calls.attributes import attribute_of
from windrow.calls.other_names import unknown_name
from windrow.errors import InvalidArgumentError, check_arity, require_callable
from windrow.text_options import checked_delimiter, checked_flag

__all__ = [
    "CollectSink",
    "Collects",
    "ConsoleSink",
    "CsvFileSink",
    "DatabaseSink",
    "DeltaSink",
    "FileSink",
    "FunctionSink",
    "IcebergSink",
    "JsonFileSink",
    "ParquetFileSink",
    "Sink",
    "TextFileSink",
    "WriterSink",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(ABC, Generic[T_contra]):
    """Where elements go.

    Attributes:
        connector_name: The name under which the package of the sink registers what writes it, in the entry points
            ``windrow.writers``.
        called_for_effect: The names of methods that are called for their effect, and whose results nobody takes.
    """

    connector_name: ClassVar[str] = ""
    called_for_effect: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[type | None] = None
    """The only type of elements that the sink takes, or None if it takes others too."""
    encodes_elements: ClassVar[bool] = False
    """Whether its writer can tell which elements it cannot write, so that ``sink_to`` takes ``on_error``."""
    shares_folder: ClassVar[bool] = False
    """Whether several sinks of a plan may write into one folder."""
    deletes_withdrawn: ClassVar[bool] = False
    """Whether the sink can take withdrawn elements out again if it is given a key."""
    is_alone: ClassVar[bool] = False
    """Whether the sink has to be the only one of its pipeline."""

    @property
    def functions_called_for_effect(self) -> tuple[Callable[..., object], ...]:
        """The plain functions of the user's that are called for their effect."""
        return ()

    @property
    def needs_schema(self) -> bool:
        """Whether the type of the elements must be known, to derive columns from it."""
        return False

    @property
    def takes_changes(self) -> bool:
        """Whether the sink takes withdrawn elements out again, and so may stand downstream of windows that retract."""
        return False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secrets that no plan, log or error may show, such as passwords among options; the longest first."""
        return ()

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The names of what the sink writes, for lineage; none of what has no name elsewhere, such as a list."""
        return ()

    @property
    def written_folder(self) -> str | None:
        """The path of the folder that the sink writes, which no source of the plan may read, or None."""
        return None

    @property
    def fields_of_folders(self) -> tuple[str, ...]:
        """The fields whose values name folders, the outer ones first."""
        return ()

    @property
    def deletes_by(self) -> tuple[str, ...]:
        """The fields by which the sink finds the row of a withdrawn element."""
        return ()

    def is_same_place(self, other: Sink[Any]) -> bool:
        """Whether another sink of the plan writes to the same place, so that the batches of one replace the other's.

        Args:
            other: The other sink.
        """
        return False

    def encoded_type(self, element_type: object | None) -> object | None:
        """The type that the sink encodes; None: it is not known.

        Args:
            element_type: The type of the elements; None: it is not known.
        """
        return element_type

    def misfits_of(self, element_type: object | None) -> Iterator[tuple[str, str]]:
        """What keeps the sink from writing elements of a type, as far as that is known: messages, each with a hint.

        Args:
            element_type: The type of the elements; None: it is not known.
        """
        yield from ()

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain()``."""

    def __repr__(self) -> str:
        name, text = type(self).__name__, self.describe()
        return f"{name}({'' if text == name else text})"


class Collects(Generic[T_co]):
    """The type of :class:`CollectSink` for whoever reads its elements: a sink of ints gives objects, too.

    With it type checkers take ``result.collected(sink)`` wherever an iterable of a wider type is expected.
    """


class CollectSink(Sink[T], Collects[T]):
    """Keeps the elements in the memory of the driver; the result of the run returns them.

    Args:
        name: Names the sink in ``explain()``.

    Example:
        >>> from windrow import Pipeline, from_collection
        >>> from windrow.sinks import CollectSink
        >>> from windrow_runtime.local import LocalRunner
        >>> sink = CollectSink[int]()
        >>> result = LocalRunner().run(Pipeline("numbers", from_collection([1, 2]).sink_to(sink)))
        >>> result.collected(sink)
        [1, 2]
    """

    connector_name = "collect"

    def __init__(self, name: str = "collect") -> None:
        self.name = name

    def is_same_place(self, other: Sink[Any]) -> bool:
        return self is other

    def describe(self) -> str:
        return "collect" if self.name == "collect" else f"collect {self.name}"


class ConsoleSink(Sink[object]):
    """Prints each element on a line of its own.

    Args:
        prefix: Printed before each element.
    """

    connector_name = "console"

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def describe(self) -> str:
        return "console"


class FileSink(Sink[T_contra]):
    """Files of one format in a folder, which readers are given by its name. A batch that is run again keeps its own.

    With ``partition_by`` the files lie in folders of the values of some fields instead, such as
    ``day=2026-03-01/kind=a%3Ab``, as Spark and Hive have them, and the fields are left out of the files. The names of
    the files begin with that of the batch. The files of a batch become visible one after the other, when all are whole.
    A value looks the same on each engine and in each file system.

    A folder is for one run and those that go on from its checkpoint. A run refuses a folder with the batches of another
    one before it writes anything. Where Spark writes the files, as on HDFS, that is seen only where the run begins
    anew; whether a run that goes on from a checkpoint wrote the batches there is not checked.

    Args:
        path: The folder: a path or a ``file:`` URI of a mounted file system, an address ``s3a://``, or, on Spark, one
            in another file system. But for mounted ones, a batch is a folder ``windrow_batch=N``, of which readers may
            see a part before it has its file ``_SUCCESS`` where files are moved one by one, and over Spark Connect.
        overwrite: Whether a run that begins anew removes the batches of earlier runs at its start, and nothing else
            that lies in the folder. A run that goes on from its checkpoint removes nothing. In mounted file systems
            and on S3 only.
        partition_by: The field, or the fields, by whose values folders are named, the outermost first. Fields of type
            ``str``, ``int``, ``bool``, ``date`` or ``Enum``, or one of them and ``None``; at least one field of the
            record is not among them. ``None``, and as in Spark an empty text, is ``__HIVE_DEFAULT_PARTITION__``.

    Raises:
        InvalidArgumentError: For ``overwrite`` in other file systems than mounted ones and S3, and if
            ``partition_by`` has an empty name or names a field twice.
    """

    format_name = "files"

    connector_name = "files"
    encodes_elements = True

    def __init__(
        self, path: str | PathLike[str], *, overwrite: bool = False, partition_by: str | Sequence[str] = ()
    ) -> None:
        self.path = checked_path(path, "files are written to")
        self.partition_by = _names(partition_by, "partition_by of a file sink")
        if overwrite and local_path(self.path) is None and not is_object_address(self.path):
            raise InvalidArgumentError(
                "batches are overwritten in mounted file systems and on s3a:// only",
                given=self.shown_path,
                expected="a path, a file: URI, or an address s3a://",
                hint="leave overwrite out, and give each run a folder of its own",
            )
        self.overwrite = overwrite

    @property
    def datasets(self) -> Sequence[Dataset]:
        return (path_dataset(self.path),)

    @property
    def written_folder(self) -> str:
        return self.path

    @property
    def fields_of_folders(self) -> tuple[str, ...]:
        return self.partition_by

    @property
    def needs_schema(self) -> bool:
        return True

    @property
    def shown_path(self) -> str:
        """The path as ``explain()`` and errors show it, without the secrets that an address may hold."""
        return redact_address(self.path)

    @property
    def secrets(self) -> tuple[str, ...]:
        return secrets_in_address(self.path)

    def describe(self) -> str:
        partitioned = f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"{self.format_name} {self.shown_path}{partitioned}"


class JsonFileSink(FileSink[T_contra]):
    """Files with one JSON value on each line: an object for a record, and another JSON value for other elements.

    Args:
        path: The folder, as for :class:`FileSink`.
        overwrite: Whether a run that begins anew removes the batches of earlier runs at its start; in mounted file
            systems and on S3 only.
        partition_by: The field, or the fields, by whose values folders are named; none by default.

    Raises:
        InvalidArgumentError: For ``overwrite`` in another file system, and if ``partition_by`` has an empty name or
            names a field twice.
    """

    format_name = "json"


class ParquetFileSink(FileSink[T_contra]):
    """Parquet files with a column for each field. Needs pyarrow, which the extra ``spark`` brings.

    Args:
        path: The folder, as for :class:`FileSink`.
        overwrite: Whether a run that begins anew removes the batches of earlier runs at its start; in mounted file
            systems and on S3 only.
        partition_by: The field, or the fields, by whose values folders are named; none by default.

    Raises:
        InvalidArgumentError: For ``overwrite`` in another file system, and if ``partition_by`` has an empty name or
            names a field twice.
    """

    format_name = "parquet"


class CsvFileSink(FileSink[T_contra]):
    """Files of comma-separated values, which :class:`~windrow.sources.CsvFileSource` reads back as they were.

    Lines end with LF, and a value is in quotes where it has a delimiter, a quote or a line end. ``None`` is an empty
    value, an empty text is two quotes; lists, dicts and nested records are JSON. An element that no line reads back as
    is refused: ``None`` in a field with another default, and ``None`` in the only column.

    See :class:`FileSink`; besides:

    Args:
        delimiter: The character between values.
        header: Whether each file begins with the names of the columns.

    Raises:
        InvalidArgumentError: For a delimiter that is not one character.
    """

    format_name = "csv"

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        delimiter: str = ",",
        header: bool = True,
        overwrite: bool = False,
        partition_by: str | Sequence[str] = (),
    ) -> None:
        super().__init__(path, overwrite=overwrite, partition_by=partition_by)
        self.delimiter = checked_delimiter(delimiter)
        self.header = checked_flag(header, "header")


class TextFileSink(FileSink[str]):
    """Files of text in UTF-8: each element is a line, which ends with LF.

    An element that would not be read back as one line is refused: one with a line end within, and one that begins with
    a byte order mark.

    Args:
        path: The folder, as for :class:`FileSink`.
        overwrite: Whether a run that begins anew removes the batches of earlier runs at its start; in mounted file
            systems and on S3 only.

    Raises:
        InvalidArgumentError: For ``overwrite`` in another file system.
    """

    format_name = "text"
    takes: ClassVar[type | None] = str

    def __init__(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        super().__init__(path, overwrite=overwrite)


class FunctionSink(Sink[T_contra]):
    """Calls a function for each batch, on the driver.

    Args:
        function: Takes the number of the batch and its elements. A batch that is run again after a failure has the
            same number, so a function that remembers the last number writes each batch once.
    """

    connector_name = "function"

    def __init__(self, function: Callable[[int, Sequence[T_contra]], object]) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                "a function sink needs a function", given=function, expected="a callable of (batch id, elements)"
            )
        check_arity(function, "the function of a sink", "batch, elements", None)
        self.function = function

    @property
    def functions_called_for_effect(self) -> tuple[Callable[..., object], ...]:
        return (self.function,)

    def describe(self) -> str:
        return f"function {attribute_of(self.function, '__qualname__') or repr(self.function)}"


class DatabaseSink(Sink[T_contra]):
    """A table of a PostgreSQL or SQLite database, with a column for each field. Each batch is one transaction.

    With a key, a row is inserted or replaces the row of its key; of several rows with one key in a batch the last one
    stays. Without a key, all rows are inserted.

    After windows that retract, and of tables, a sink with a key deletes the row of a result that is withdrawn, unless
    another result of its key follows in the batch. The key has to tell the rows of the stream apart, such as the key of
    the table, or the key and the start of windows; where the plan knows that it does not, it is refused.

    Each batch is written once. The transaction that writes the rows also notes the number of the batch in a table
    ``windrow_batches`` beside the sink's, under the identity of the checkpoint, and a batch that was noted before is
    left out. A run without a checkpoint has an identity of its own. On Spark workers stage the rows of large batches in
    tables of PostgreSQL beside the sink's; to SQLite, or with ``create=False``, all elements pass through the driver.

    Needs the extra ``database``. The table is made, or its columns are checked, before the first
    batch.

    Args:
        url: The address: ``sqlite:///file.db``, or ``postgresql://user:password@host:port/database``. A password, and
            the values of parameters that may hold one, are never shown.
        table: The name of the table.
        key: The field, or the fields, that tell rows apart. They cannot be Optional, nor of a type with parts or with
            fractions. A table that exists needs a primary key or a unique index of the same columns.
        schema: The schema of the table; by default the one that the database uses by itself.
        create: Whether to make the table if it is missing, and tables that stage rows.

    Raises:
        InvalidArgumentError: For the address of another kind of database, an empty name, or a key that names a field
            twice.
    """

    connector_name = "database"
    deletes_withdrawn = True
    encodes_elements = True

    def __init__(
        self, url: str, table: str, *, key: str | Sequence[str] = (), schema: str | None = None, create: bool = True
    ) -> None:
        self.url = DatabaseUrl.parse(url)
        self.table = _name(table, "the table of a database sink")
        self.schema = None if schema is None else _name(schema, "the schema of a database sink")
        self.key = _names(key, "the key of a database sink")
        self.create = create

    @property
    def needs_schema(self) -> bool:
        return True

    @property
    def takes_changes(self) -> bool:
        """True with a key."""
        return bool(self.key)

    @property
    def deletes_by(self) -> tuple[str, ...]:
        return self.key

    @property
    def datasets(self) -> Sequence[Dataset]:
        return (table_dataset(self.url, self.table, self.schema),)

    @property
    def qualified_table(self) -> str:
        """The table with its schema."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"

    @property
    def secrets(self) -> tuple[str, ...]:
        return longest_first(self.url.secrets)

    def describe(self) -> str:
        keyed = f" by {', '.join(self.key)}" if self.key else ""
        return f"database {self.url}, table {self.qualified_table}{keyed}"


class DeltaSink(Sink[T_contra]):
    """A Delta Lake table, with a column for each field. The rows of each batch are appended by one commit.

    With a key, rows are merged instead: a row replaces that of its key, and of several rows with one key in a batch the
    last one stays. After windows that retract, and of tables, the row of a result that is withdrawn is deleted then,
    unless another result of its key follows in the batch. The key has to tell the rows of the stream apart; see
    :class:`DatabaseSink`.

    Each batch is written once. The commit holds the number of the batch as an application transaction, under the
    identity of the checkpoint, and a batch that the table has already is left out. A run without a checkpoint has an
    identity of its own. On Spark workers write the files of a table at a plain path; with a key or partitions, or at
    an address, the driver does.

    Needs the extra ``delta``. The table is made, or its columns are checked, before the first
    batch.

    Args:
        path: The folder of the table, or its address in an object store.
        key: The field, or the fields, that tell rows apart. They cannot be Optional, nor of a type with parts.
        partition_by: The field, or the fields, by whose values the files are laid out.
        storage_options: What the object store needs, by the names of the ``deltalake`` package. Never shown.

    Raises:
        InvalidArgumentError: If ``key`` or ``partition_by`` has an empty name, or names a field twice.
    """

    connector_name = "delta"
    shares_folder = True  # a table takes the rows of several sinks
    deletes_withdrawn = True
    encodes_elements = True

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.path = checked_path(path, "a Delta table is written to")
        self.key = _names(key, "the key of a Delta sink")
        self.partition_by = _names(partition_by, "partition_by of a Delta sink")
        self.storage_options = dict(storage_options or {})

    @property
    def datasets(self) -> Sequence[Dataset]:
        return (path_dataset(self.path),)

    @property
    def written_folder(self) -> str:
        return self.path

    @property
    def needs_schema(self) -> bool:
        return True

    @property
    def takes_changes(self) -> bool:
        """True with a key."""
        return bool(self.key)

    @property
    def deletes_by(self) -> tuple[str, ...]:
        return self.key

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*secrets_in(self.storage_options), *secrets_in_address(self.path))

    def describe(self) -> str:
        keyed = f" by {', '.join(self.key)}" if self.key else ""
        partitioned = f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"delta {redact_address(self.path)}{keyed}{partitioned}"


class IcebergSink(Sink[T_contra]):
    """An Apache Iceberg table, with a column for each field. The rows of each batch are appended by one snapshot.

    Each batch is written once. The commit that adds the snapshot also sets a property of the table to the number of the
    batch, under the identity of the checkpoint, and a batch that the table has already is left out. A run without a
    checkpoint has an identity of its own. On Spark workers write the files, by the table's partition spec, and the
    driver commits them.

    Needs the extra ``iceberg``. The table is made without partitions, or its columns are checked, before the first
    batch; its namespace must exist.

    Args:
        table: The identifier of the table in its catalog, such as ``weather.coldest``.
        catalog: The name of the catalog, as ``pyiceberg.catalog.load_catalog`` takes it. What pyiceberg's configuration
            has for that name is used besides ``properties``.
        properties: The properties of the catalog, by the names of ``pyiceberg``: its type and address, and what the
            file system of its tables needs. Never shown. On Spark they are sent to the workers.

    Raises:
        InvalidArgumentError: If ``table`` names no namespace, ``catalog`` is empty, or a property is no text.
    """

    connector_name = "iceberg"
    encodes_elements = True

    def __init__(self, table: str, *, catalog: str = "default", properties: Mapping[str, str] | None = None) -> None:
        self.table = _name(table, "the table of an Iceberg sink")
        if "." not in table or not all(table.split(".")):
            raise InvalidArgumentError(
                "the table of an Iceberg sink needs a namespace", given=table, expected="namespace.table"
            )
        self.catalog = _name(catalog, "the catalog of an Iceberg sink")
        self.properties = dict(properties or {})
        for name, value in self.properties.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidArgumentError(
                    "the properties of a catalog are texts",
                    given=f"{name}: {type(value).__name__}",
                    expected="a mapping of str to str, such as {'type': 'rest', 'uri': 'https://...'}",
                )

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The table, in a namespace of its catalog."""
        return (Dataset(f"iceberg:{self.catalog}", self.table),)

    @property
    def needs_schema(self) -> bool:
        return True

    @property
    def secrets(self) -> tuple[str, ...]:
        headers = (value for name, value in self.properties.items() if name.startswith("header."))
        return longest_first([*secrets_in(self.properties), *headers])

    def describe(self) -> str:
        return f"iceberg table {self.table}, catalog {self.catalog}"


def _name(name: str, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"{what} needs a name", given=name, expected="a non-empty string")
    return name


def _names(fields: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (fields,) if isinstance(fields, str) else tuple(fields)
    if len(set(names)) != len(names) or not all(isinstance(name, str) and name for name in names):
        raise InvalidArgumentError(
            f"{what} is made of the names of fields",
            given=fields,
            expected="the name of a field, or several different ones",
        )
    return names


class WriterSink(Sink[T_contra]):
    """Spark's own streaming sinks: any configured ``DataStreamWriter``. The only sink of its pipeline, on Spark only.

    Args:
        configure: Takes the DataFrame of the elements, whose columns come from their type, and gives a
            ``DataStreamWriter`` that is configured but not started: ``lambda df: df.writeStream.format("kafka")...``.
            The runner adds the checkpoint, the query's name and the trigger. Spark writes by itself, so the result
            of such a run has no counters.
    """

    connector_name = "dataframe"
    is_alone = True  # Spark's own query writes it

    # Any: the DataFrame and the DataStreamWriter are Spark's; the language does not import Spark.
    def __init__(self, configure: Callable[[Any], Any]) -> None:
        expected = "a callable that takes a DataFrame and gives a DataStreamWriter"
        require_callable(configure, "what configures the writer of a sink", expected, takes="frame")
        self.configure = configure

    @property
    def needs_schema(self) -> bool:
        return True

    def describe(self) -> str:
        return "Spark writer"


if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)

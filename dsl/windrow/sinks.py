"""Sinks: where a pipeline writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Generic, TypeVar

from windrow.errors import InvalidArgumentError

__all__ = [
    "CollectSink",
    "ConsoleSink",
    "FileSink",
    "FunctionSink",
    "JsonFileSink",
    "ParquetFileSink",
    "Sink",
    "WriterSink",
]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(ABC, Generic[T_contra]):
    """Where elements go."""

    @property
    def needs_schema(self) -> bool:
        """Whether the type of the elements must be known, to derive columns from it."""
        return False

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain()``."""


class CollectSink(Sink[T]):
    """Keeps the elements in the memory of the driver; the result of the run hands them out.

    Args:
        name: Names the sink in ``explain()``.
    """

    def __init__(self, name: str = "collect") -> None:
        self.name = name

    def describe(self) -> str:
        return f"collect {self.name}"


class ConsoleSink(Sink[object]):
    """Prints each element on a line of its own.

    Args:
        prefix: Printed before each element.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def describe(self) -> str:
        return "console"


class FileSink(Sink[T_contra]):
    """Files of one format below a folder, one sub-folder a batch. A batch that is run again replaces its own files.

    Batches are numbered from 0 by each new run, so give a run that does not go on from an earlier one's checkpoint a
    folder of its own: it replaces batches of the same number and leaves the others.

    Args:
        path: The folder.
    """

    format_name = "files"

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)

    @property
    def needs_schema(self) -> bool:
        """True."""
        return True

    def describe(self) -> str:
        return f"{self.format_name} {self.path}"


class JsonFileSink(FileSink[T_contra]):
    """Files with one JSON object on each line."""

    format_name = "json"


class ParquetFileSink(FileSink[T_contra]):
    """Parquet files with a column for each field."""

    format_name = "parquet"


class FunctionSink(Sink[T_contra]):
    """Calls a function for each batch, on the driver.

    Args:
        function: Takes the number of the batch and its elements. A batch that is run again after a failure has the
            same number, so a function that remembers the last number writes each batch once.
    """

    def __init__(self, function: Callable[[int, Sequence[T_contra]], object]) -> None:
        if not callable(function):
            raise InvalidArgumentError(
                "a function sink needs a function",
                given=function,
                expected="a callable of (batch id, elements)",
            )
        self.function = function

    def describe(self) -> str:
        return f"function {getattr(self.function, '__qualname__', repr(self.function))}"


class WriterSink(Sink[T_contra]):
    """Spark's own streaming sinks: any configured ``DataStreamWriter``. The only sink of its pipeline, on Spark only.

    Args:
        configure: Takes the DataFrame of the elements, whose columns come from their type, and gives a
            ``DataStreamWriter`` that is configured but not started: ``lambda df: df.writeStream.format("kafka")...``.
            The runner adds the checkpoint, the query's name and the trigger. Spark writes by itself, so the result
            of such a run has no counters.
    """

    # Any: the DataFrame and the DataStreamWriter are Spark's; the language does not import Spark.
    def __init__(self, configure: Callable[[Any], Any]) -> None:
        if not callable(configure):
            raise InvalidArgumentError(
                "a writer sink needs a function",
                given=configure,
                expected="a callable that takes a DataFrame and gives a DataStreamWriter",
            )
        self.configure = configure

    @property
    def needs_schema(self) -> bool:
        """True."""
        return True

    def describe(self) -> str:
        return "Spark writer"

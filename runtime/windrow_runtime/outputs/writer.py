"""Defines what engines ask of a sink, and finds the writer that answers for a sink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow.sinks import Sink
from windrow_runtime.operators.registered import registered
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.output import Identity, Output

S_co = TypeVar("S_co", bound=Sink[Any], covariant=True)

WRITERS: Final = "windrow.writers"
"""The entry points by which packages register writers, under the :attr:`~windrow.sinks.Sink.connector_name`."""

# Any in this module: sinks of elements of every type.


class Target(NamedTuple):
    """The target of a sink: its kind, the text with which labels begin, and whether windrow notes batches there."""

    kind: str
    text: str
    is_exact: bool


class SinkWriter(Generic[S_co]):
    """Answers the questions that each engine asks about the sink of a step, and makes the output that writes it.

    A package registers its writer under the name that its sink has as ``connector_name``.
    """

    extra: ClassVar[str] = ""
    """The extra of windrow that brings the library, if there is one."""

    keeps_elements: ClassVar[bool] = False
    """Whether the result of the run has the elements."""

    def __init__(self, sink: S_co, step: Step) -> None:
        self.sink = sink
        self.step = step

    def output(self, identity: Identity) -> Output | None:
        """Returns the output that writes the sink in the process of the run; None: no output does."""
        return None

    def check_local(self) -> None:
        """Refuse a sink that the interpreter cannot write, before anything runs."""
        if not (self.keeps_elements or self.has_output):
            raise UnsupportedOperationError(
                "the interpreter cannot write to this sink",
                given=self.sink.describe(),
                expected="a sink that needs no Spark, such as memory, files or a CustomSink",
                where=self.step.where,
                hint="run the pipeline with SparkRunner",
            )

    def encoder(self) -> Callable[[Sequence[Any]], object]:
        """Returns a function that encodes elements as the sink does, if :attr:`~windrow.sinks.Sink.encodes_elements`.

        An ``on_error`` of the sink's step has it called before elements are written, on workers too. For an element
        that cannot be written it raises an ``InvalidArgumentError``, a ``UserFunctionError``, or an error that is not
        windrow's; a ``SinkError``, such as that of a registry which does not answer, fails the run. It opens no file
        and no connection to the target.
        """
        raise NotImplementedError(f"{self.sink.describe()} encodes no elements")

    @property
    def has_output(self) -> bool:
        """Whether :meth:`output` gives one."""
        return type(self).output is not SinkWriter.output

    def table(self, elements: list[Any]) -> Any:
        """Returns kept elements as a ``pyarrow.Table``, if the result of the run has them."""
        raise NotImplementedError(f"{self.sink.describe()} keeps no elements")

    def data_frame(self, elements: list[Any], pandas: Any) -> Any:
        """Returns kept elements as a ``pandas.DataFrame``, if the result of the run has them."""
        raise NotImplementedError(f"{self.sink.describe()} keeps no elements")

    @property
    def target(self) -> Target | None:
        """The target of the sink, which other sinks may share; None: windrow notes no batches there.

        The address of a database or of brokers is not part of it: one that is spelled differently after a restart would
        have the same batches written again.
        """
        return None

    @property
    def functions(self) -> tuple[object, ...]:
        """The user's functions in the sink, which with :attr:`definition` tell it from other sinks of its target."""
        return ()

    @property
    def definition(self) -> object | None:
        """An object whose code and values tell the sink from others of its target; None: ``describe()`` does."""
        return None

    def moved_to(self, folder: Path) -> SinkWriter[Any] | None:
        """Returns a writer that writes the same into a folder that does not exist; None: rows are not read back."""
        return None

    def rows_written(self, batches: Collection[int]) -> dict[tuple[int, str], Counter[str]]:
        """Reads back the rows that the sink has written in some batches, by the batch and the part of the target."""
        raise NotImplementedError(f"the rows of {self.sink.describe()} are not read back")

    def check_free(self, run: str, *, begins: bool) -> None:
        """Refuse a target that another run has written or that cannot be written; changes nothing.

        Args:
            run: The identity of the run, which goes on with its checkpoint.
            begins: Whether no batch of the run was begun before.
        """

    def lock(self, is_live: Callable[[], bool]) -> Callable[[], None] | None:
        """Keeps other runs from the target as long as ``is_live``; returns what releases it; None: nothing does."""
        return None

    def take_over(self, run: str) -> None:
        """Notes in the target that it belongs to a run."""

    def check_owner(self, run: str) -> None:
        """Refuse a target that another run has taken meanwhile; called before each batch and before it is published."""


def encoder_of(step: Step) -> Callable[[Sequence[Any]], object]:
    """Returns the function that encodes elements as the sink of a step does."""
    return writer_of(step).encoder()


def writer_of(step: Step) -> SinkWriter[Sink[Any]]:
    """Returns the writer of a step's sink, which the package of the sink has registered.

    Raises:
        UnsupportedOperationError: If no installed package has registered one, several have, or it cannot be loaded.
    """
    sink = sink_of(step)
    if not type(sink).connector_name:
        return SinkWriter(sink, step)
    writer: SinkWriter[Sink[Any]] = registered(WRITERS, sink, step.where)(sink, step)
    return writer

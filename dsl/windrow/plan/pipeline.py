"""Defines pipelines: named, immutable sets of sinks with everything upstream of them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from windrow.calls.attributes import attribute_of
from windrow.calls.kept import warn_of_what_calls_keep
from windrow.entry_points import load
from windrow.errors import InvalidArgumentError, no_attribute, warn
from windrow.plan.base_node import Node
from windrow.plan.explained.form import Form
from windrow.plan.explained.lost import warn_of_what_is_lost
from windrow.plan.explained.step_view import PlanFormat, views_of
from windrow.plan.location import refusal
from windrow.plan.nodes import SinkNode
from windrow.plan.steps import Step, number_steps
from windrow.plan.validation import validate
from windrow.plan.walk import walk
from windrow.sinks import CollectSink
from windrow.text_options import is_line

T = TypeVar("T")


class Engine(Protocol):
    """What runs pipelines, as far as ``explain()`` asks."""

    def forms(self, pipeline: Pipeline) -> Mapping[str, Form]:
        """In which form it runs steps of a pipeline, by their ids.

        Args:
            pipeline: The pipeline.

        Returns:
            The form of each step that has one.
        """
        ...


class Collected(Protocol):
    """The result of a run, as far as ``collect()`` asks."""

    def collected(self, sink: CollectSink[T], /) -> list[T]:
        """The elements that went to a sink of the pipeline, in order of arrival.

        Args:
            sink: The sink, the object that ``sink_to`` was given.
        """
        ...


class Runner(Protocol):
    """What runs a pipeline to the end of its sources, such as ``LocalRunner`` and ``SparkRunner``."""

    def run(self, pipeline: Pipeline, /) -> Collected:
        """Run the pipeline; returns what was collected.

        Args:
            pipeline: The pipeline.
        """
        ...


def checked_runner(runner: Runner | None) -> Runner:
    """The runner that a call was given, or by default a new one of the interpreter.

    Raises:
        InvalidArgumentError: If it is no runner.
    """
    if runner is None:
        local: Runner = load("windrow.runners", "local")()
        return local
    if isinstance(runner, type) or not callable(attribute_of(runner, "run")):
        raise refusal(
            "a runner runs the pipeline",
            given=runner,
            expected="LocalRunner(), SparkRunner(), or None for the interpreter",
            hint=f"an instance, not the class: {runner.__name__}()" if isinstance(runner, type) else None,
        )
    return runner


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class PipelineSink:
    """A sink of a :class:`Pipeline`, with the steps upstream of it: the base of :class:`~windrow.DataStreamSink`.

    One that no pipeline was given writes nothing. Python then shows a :class:`~windrow.errors.WindrowWarning`, when the
    object is deleted or the program ends.
    """

    node: SinkNode
    _unused: weakref.finalize[[SinkNode], PipelineSink] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unused", weakref.finalize(self, _warn_of_unused, self.node))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.describe()}, {self.node.location})"

    def _use(self) -> None:
        """Takes note that a pipeline was given this sink."""
        self._unused.detach()


def _use_all(arguments: Iterable[object]) -> None:
    """Takes note of the sinks among the arguments of a call that is refused, and in lists there."""
    for argument in arguments:
        for sink in argument if isinstance(argument, (list, tuple)) else (argument,):
            if isinstance(sink, PipelineSink):
                sink._use()  # pyright: ignore[reportPrivateUsage]  # of this module


def _check_all_given(steps: Iterable[Step], sinks: Iterable[PipelineSink]) -> None:
    """Refuse a plan that reads what a sink cannot write, and does not have that sink itself."""
    nodes = {id(sink.node) for sink in sinks}
    for step in steps:
        if step.node.writes is not None and id(step.node) not in nodes:
            raise refusal(
                "a pipeline reads the elements that a sink cannot write, and was not given that sink",
                given=f"{step.node.describe()}, {step.node.location}",
                expected="all sinks of the program",
                hint='written = stream.sink_to(sink, on_error=tag); Pipeline("name", written, ...); collect() and '
                "StreamHarness run no sink",
            )


def _warn_of_unused(node: SinkNode) -> None:
    warn(
        "a sink was given to no pipeline, so nothing is written to it",
        given=node.describe(),
        where=node.location,
        hint='Pipeline("name", stream.sink_to(...)), with all sinks of the program',
        location=node.location,
    )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Pipeline:
    """A named, immutable set of sinks; what a runner runs.

    Args:
        name: Names the pipeline in ids, in errors and in Spark's pages.
        sinks: What ``sink_to`` gave, at least one.
        allow_pickled_state: Whether an engine may pickle values of state whose classes the plan does not name, or that
            pickle in a way of their own. Without it nothing in a checkpoint is pickled: builtin types, value types of
            the standard library, records, and objects of classes that the plan names are stored by their types, and
            any other value is refused. Whoever can write to the checkpoint of a plan that allows it can run code in
            the plan's processes.

    Raises:
        PlanError: With every fault of the plan: an event-time window on a stream without timestamps, a trigger that
            cannot merge on merging windows, lateness outside event time, a sink whose columns cannot be known,
            two file sinks on one folder.
        InvalidArgumentError: If the name is no line of text or empty, or a sink is not what ``sink_to`` gave.

    Example:
        >>> from windrow import Pipeline, from_collection
        >>> from windrow.sinks import CollectSink
        >>> large = from_collection([1, 2]).filter(lambda number: number > 1)
        >>> Pipeline("numbers", large.sink_to(CollectSink()))
        Pipeline('numbers', 3 steps, 1 sink)
    """

    name: str
    sinks: tuple[PipelineSink, ...]
    allow_pickled_state: bool
    steps: tuple[Step, ...] = field(repr=False)
    _has_all_sinks: ClassVar[bool] = True

    def __init__(self, name: str, *sinks: PipelineSink, allow_pickled_state: bool = False) -> None:
        if not isinstance(name, str) or not name:
            _use_all((name, *sinks))
            raise refusal(
                "a pipeline needs a name",
                given=name,
                expected="a non-empty string",
                hint='Pipeline("name", stream.sink_to(CollectSink()))',
            )
        if not is_line(name):
            raise refusal(
                "the name of a pipeline is no line of text",
                given=ascii(name),
                expected="no control characters, and no half of a surrogate pair",
                hint="give it a name of characters that can be shown",
            )
        for sink in sinks:
            if not isinstance(sink, PipelineSink):
                _use_all(sinks)
                raise refusal(
                    "a pipeline is made of sinks",
                    given=sink,
                    expected="what stream.sink_to(...) gives",
                    hint="Pipeline(name, *sinks)"
                    if isinstance(sink, (list, tuple))
                    else "Pipeline(name, stream.sink_to(CollectSink()))",
                )
        for sink in sinks:
            sink._use()  # pyright: ignore[reportPrivateUsage]  # of this module
        steps = tuple(number_steps(name, walk([sink.node for sink in sinks])))
        _check_all_given(steps, sinks)
        validate(name, steps)
        warn_of_what_calls_keep(steps)
        if self._has_all_sinks:
            warn_of_what_is_lost(steps)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sinks", sinks)
        object.__setattr__(self, "allow_pickled_state", allow_pickled_state)
        object.__setattr__(self, "steps", steps)

    if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

        def __getattr__(self, name):
            """Says what to write instead of a name of other systems."""
            run = "LocalRunner().run(pipeline), or SparkRunner().run(pipeline)"
            raise no_attribute(self, name, dict.fromkeys(("execute", "run", "start"), run))

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {_counted(len(self.steps), 'step')}, {_counted(len(self.sinks), 'sink')})"

    def explain(self, engine: Engine | None = None, *, format: PlanFormat = "text") -> str:  # noqa: A002  its name
        """The plan as text: a line a step, inputs before what reads them. Or in another format.

        Args:
            engine: A runner, which says below each keyed step in which form it runs it, and why in no faster one.
            format: ``"text"``; ``"mermaid"``, a flowchart that GitHub draws; ``"json"``, for tools, by a schema that
                has a version; ``"svg"``, a picture.

        Raises:
            InvalidArgumentError: If ``engine`` is a class, or there is no such format.
        """
        if isinstance(engine, type):
            raise InvalidArgumentError(
                "a plan is explained for a runner", given=engine, expected="an instance, not the class"
            )
        # Most programs never show a plan: SVG and JSON are imported where one is.
        from windrow.plan.explained.formats import render

        views = views_of(self.steps, {} if engine is None else engine.forms(self))
        return render(format, self.name, views, None if engine is None else type(engine).__name__)

    def _repr_html_(self) -> str:
        return self.explain(format="svg")

    def step_of(self, node: Node) -> Step:
        """The step that ``node`` is.

        Args:
            node: A node of the plan, such as the ``node`` of a stream.

        Raises:
            KeyError: If the node is not part of the pipeline.
        """
        for step in self.steps:
            if step.node is node:
                return step
        raise KeyError(node)


class PartialPipeline(Pipeline):
    """A pipeline of some streams that a user looks at, which need not read all that their steps put out."""

    _has_all_sinks: ClassVar[bool] = False


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

"""The runs of pages and examples, taken so that they can be run again over the same elements in other batches.

A page runs as a script whose runners and harnesses are watched: each plan that they run is kept, with its elements.
"""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import io
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import datetime, timedelta
from inspect import signature
from itertools import accumulate, count, islice
from operator import sub
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final, NamedTuple
from unittest.mock import Mock

import pytest
from sybil import Document
from sybil.parsers.myst import PythonCodeBlockParser

from windrow import DataStreamSink, WatermarkStrategy, from_source
from windrow.builder.stream import DataStream
from windrow.errors import WindrowError, WindrowWarning
from windrow.panes import Change
from windrow.plan import Node, Pipeline, SourceNode, Step
from windrow.plan.changing import carries_changes
from windrow.plan.nodes import TimestampsNode
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.tags import OutputTag
from windrow.time import timestamp_millis
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.local import LocalRunner, PipelineResult
from windrow_runtime.operators.topology import Topology, topology_of, uses_clock
from windrow_runtime.spark import SparkRunner
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: elements of every page, and cells of a notebook.

ROOT: Final = Path(__file__).parents[2]
_MOST: Final = 300
"""How many elements of a source are taken: a batch of one each would take long for more."""


class Pushed(NamedTuple):
    """An element of a source of a page, and the timestamp that a harness was given with it."""

    source: int
    at: int | None
    value: Any


@dataclasses.dataclass(frozen=True)
class Elements:
    """The elements of a source, in order; ``stamps`` are those that a harness was given with them."""

    values: list[Any]
    stamps: Sequence[int | datetime | None] | None = None

    @property
    def are_stamped(self) -> bool:
        return self.stamps is not None and None not in self.stamps

    def pushed(self, source: int) -> list[Pushed]:
        times = [None if at is None else timestamp_millis(at) for at in self.stamps or [None] * len(self.values)]
        return [Pushed(source, *each) for each in zip(times, self.values, strict=True)]

    def unpacked(self, pushed: DataStream[Pushed], node: SourceNode) -> DataStream[Any]:
        """Gives elements their timestamps, with a watermark that makes none of them late."""
        if self.are_stamped:
            times = [timestamp_millis(at) for at in self.stamps or () if at is not None]
            strategy = WatermarkStrategy.for_bounded_out_of_orderness(_disorder(times))
            pushed = pushed.assign_timestamps_and_watermarks(strategy, timestamp=lambda each: each.at or 0)
        values = pushed.map(lambda each: each.value)
        element_type: Any = node.element_type
        return values if element_type is None else values.returns(element_type)


Reads = Callable[[SourceNode, Elements], DataStream[Any]]


def in_batches(size: int | None) -> Reads:
    """Reads each source in batches of a size."""

    def read(node: SourceNode, elements: Elements) -> DataStream[Any]:
        if elements.are_stamped:
            return elements.unpacked(from_source(CollectionSource(elements.pushed(0), Pushed, batch_size=size)), node)
        element_type: Any = node.element_type
        return from_source(CollectionSource(elements.values, element_type, batch_size=size))

    return read


def together(runs: Sequence[PageRun]) -> list[Reads]:
    """Reads the elements of all runs from one source, whose batch is a job of Spark."""
    counter = count()
    numbers = [{node: next(counter) for node in run.elements} for run in runs]
    pushed = [
        each
        for run, of_run in zip(runs, numbers, strict=True)
        for node, elements in run.elements.items()
        for each in elements.pushed(of_run[node])
    ]
    source = from_source(CollectionSource(pushed, Pushed))

    def reads(of_run: dict[int, int]) -> Reads:
        def read(node: SourceNode, elements: Elements) -> DataStream[Any]:
            number = of_run[id(node)]
            return elements.unpacked(source.filter(lambda each: each.source == number), node)

        return read

    return [reads(of_run) for of_run in numbers]


def _noted(timestamp: Callable[[Any], int | datetime], times: list[int]) -> Callable[[Any], int]:
    def noted(element: Any) -> int:
        times.append(timestamp_millis(timestamp(element)))
        return times[-1]

    return noted


def _disorder(times: Sequence[int]) -> timedelta:
    """By how much a time is below the highest one before it, at most."""
    return timedelta(milliseconds=max(map(sub, accumulate(times, max), times), default=0))


@dataclasses.dataclass(frozen=True)
class PageRun:
    """One run of a page: its streams with results, and the elements of its sources."""

    name: str
    outputs: tuple[Node, ...]
    elements: dict[int, Elements]  # by the identity of the node of the source

    @property
    def location(self) -> str:
        return str(self.outputs[0].location)

    @property
    def line(self) -> int:
        return int(self.location.rpartition(":")[2])

    def with_elements(self, of_sources: Sequence[Elements]) -> PageRun:
        """The same run over other elements, which are given source by source."""
        return dataclasses.replace(self, elements=dict(zip(self.elements, of_sources, strict=True)))

    def copy(self, read: Reads, *, times: dict[int, list[int]] | None = None) -> Copy:
        """The same streams once more, over sources that are read in another way.

        With ``times``, the timestamps of each step that gives some, watermarks wait long enough that none is late. They
        are added where there are none yet.
        """
        renewed: dict[int, Node] = {}

        def renew(node: Node) -> Node:
            if id(node) not in renewed:
                if isinstance(node, SourceNode):
                    renewed[id(node)] = read(node, self.elements[id(node)]).node
                    return renewed[id(node)]
                fields = (field.name for field in dataclasses.fields(node) if field.init)
                changed = {name: renew_field(getattr(node, name)) for name in fields}
                if times is not None and isinstance(node, TimestampsNode) and (take := node.timestamp) is not None:
                    if seen := times.get(id(node)):
                        changed["strategy"] = WatermarkStrategy.for_bounded_out_of_orderness(_disorder(seen))
                    else:
                        changed["timestamp"] = _noted(take, times.setdefault(id(node), []))
                renewed[id(node)] = dataclasses.replace(node, **changed)
            return renewed[id(node)]

        def renew_field(value: Any) -> Any:
            if isinstance(value, tuple) and any(isinstance(each, Node) for each in value):
                return tuple(map(renew_field, value))
            return renew(value) if isinstance(value, Node) else value

        streams = [DataStream[Any](renew(node)) for node in self.outputs]
        collecting = [CollectSink[Any]() for _ in streams]
        return Copy(
            collecting,
            [
                (stream.changelog() if carries_changes(stream.node) else stream).sink_to(sink)
                for stream, sink in zip(streams, collecting, strict=True)
            ],
        )

    def results(self, size: int | None, *, times: dict[int, list[int]] | None = None) -> list[Counter[str]]:
        """The results of the interpreter over batches of a size."""
        copy = self.copy(in_batches(size), times=times)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WindrowWarning)
            return copy.shown(LocalRunner(progress=False).run(pipeline_of([copy])))


@dataclasses.dataclass(frozen=True)
class Copy:
    """A run once more, over other batches."""

    collecting: list[CollectSink[Any]]
    sinks: list[DataStreamSink]

    def shown(self, result: PipelineResult) -> list[Counter[str]]:
        """The results of each stream as texts, without their order; what was withdrawn is taken out again."""
        counters = []
        for sink in self.collecting:
            counter = Counter[str]()
            for each in result.collected(sink):
                is_change = isinstance(each, Change)
                counter[repr(each.value if is_change else each)] += -1 if is_change and each.kind.is_withdrawal else 1
            counters.append(Counter({text: count for text, count in counter.items() if count}))
        return counters


def pipeline_of(copies: Iterable[Copy]) -> Pipeline:
    """One pipeline of several runs."""
    return Pipeline("again", *(sink for copy in copies for sink in copy.sinks), allow_pickled_state=True)


class Watcher:
    """Keeps what a page runs."""

    def __init__(self) -> None:
        self.runs: list[PageRun] = []
        self._pipelines: set[int] = set()
        self._harnesses: list[_Pushed] = []
        self._kept: list[object] = []  # so that no identity is used twice

    def ran(self, pipeline: Pipeline) -> None:
        """Takes note of a pipeline, once."""
        topology = topology_of(pipeline)
        if id(pipeline) in self._pipelines or not has_state(topology):
            return
        self._pipelines.add(id(pipeline))
        self._kept.append(pipeline)
        elements = {id(step.node): Elements(list(islice(_read(step), _MOST))) for step in topology.sources}
        outputs = tuple(step.node.inputs[0] for step in topology.sinks)
        self.runs.append(PageRun(pipeline.name, tuple(dict.fromkeys(outputs)), elements))

    def pushed(self, harness: _Pushed) -> None:
        self._harnesses.append(harness)

    def finished(self) -> list[PageRun]:
        """All runs, those of harnesses last."""
        for harness in self._harnesses:
            if (run := harness.as_run()) is not None:
                self.runs.append(run)
        return self.runs


def has_state(topology: Topology) -> bool:
    """Whether a plan has a keyed step, and none that waits for the clock, whose results are those of the clock."""
    return bool(topology.keyed) and not any(uses_clock(step.node) for step in topology.keyed)


def _read(step: Step) -> Iterator[Any]:
    for batch in reader_of(step).batches():
        yield from batch.values


class _Pushed:
    """What a page pushed into a harness."""

    def __init__(self, stream: DataStream[Any], also: tuple[DataStream[Any], ...]) -> None:
        self._stream = stream
        self._outputs = dict.fromkeys(each.node for each in (stream, *also))
        pipeline = Pipeline("harness", *(each.sink_to(CollectSink[Any]()) for each in (stream, *also)))
        self._topology = Topology(pipeline.steps)
        self._of_step: dict[str, tuple[list[Any], list[int | None]]] = {
            step.id: ([], []) for step in self._topology.sources
        }
        self.nodes = {step.id: step.node for step in self._topology.sources}

    def element(self, step: str, value: Any, timestamp: int | None) -> None:
        values, stamps = self._of_step[step]
        values.append(value)
        stamps.append(timestamp)

    def side_output(self, tag: OutputTag[Any]) -> None:
        try:
            self._outputs[self._stream.get_side_output(tag).node] = None
        except WindrowError:
            return  # of a step upstream

    def as_run(self) -> PageRun | None:
        if not has_state(self._topology) or not any(values for values, _ in self._of_step.values()):
            return None
        elements = {id(self.nodes[step]): Elements(*pushed) for step, pushed in self._of_step.items()}
        return PageRun("harness", tuple(self._outputs), elements)


@contextmanager
def watched() -> Iterator[Watcher]:
    """Watches runners and harnesses; what would run on Spark runs on the interpreter."""
    watcher, pushed = Watcher(), dict[int, _Pushed]()
    run, begin = LocalRunner.run, StreamHarness.__init__
    process, take = StreamHarness.process_element, StreamHarness.take_side_output

    def run_watched(self: LocalRunner, pipeline: Pipeline, **options: Any) -> PipelineResult:
        watcher.ran(pipeline)
        return run(self, pipeline, **options)

    def run_of_spark(self: SparkRunner, pipeline: Pipeline, *, drain: bool = True, **_: Any) -> PipelineResult:
        return run_watched(LocalRunner(progress=False), pipeline, drain=drain)

    def begin_watched(self: Any, stream: Any, source: Any = None, **options: Any) -> None:
        begin(self, stream, source, **options)
        pushed[id(self)] = _Pushed(stream, options.get("also", ()))
        watcher._kept.append(self)
        watcher.pushed(pushed[id(self)])

    def process_watched(self: Any, value: Any, timestamp: Any = None, *, source: PushSource[Any] | None = None) -> None:
        port = self._source if source is None else self._port_of(source)
        pushed[id(self)].element(port.step, value, timestamp)
        others: dict[str, Any] = {} if source is None else {"source": source}
        process(self, value, timestamp, **others)

    def take_watched(self: Any, tag: OutputTag[Any]) -> Any:
        pushed[id(self)].side_output(tag)
        return take(self, tag)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalRunner, "run", run_watched)
        patch.setattr(SparkRunner, "run", run_of_spark)
        patch.setattr(SparkRunner, "run_batch", run_of_spark)
        patch.setattr(SparkRunner, "start", Mock())
        patch.setattr(StreamHarness, "__init__", begin_watched)
        patch.setattr(StreamHarness, "process_element", process_watched)
        patch.setattr(StreamHarness, "take_side_output", take_watched)
        yield watcher


@contextmanager
def as_main(module: ModuleType) -> Iterator[None]:
    """A page runs as the main module, as the program of a reader does."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before


def main_of_all(modules: Iterable[ModuleType]) -> ModuleType:
    """One main module with the classes of several pages, under names of their own: pickle looks for classes there."""
    main = ModuleType("__main__")
    for number, module in enumerate(modules):
        for value in list(vars(module).values()):
            if (
                isinstance(value, type)
                and value.__module__ == "__main__"
                and vars(main).get(value.__name__) is not value
            ):
                value.__name__ = value.__qualname__ = f"{value.__name__}_{number}"
                setattr(main, value.__name__, value)
    return main


class Code(NamedTuple):
    """A piece of code, its line on the page, and whether it shows an error."""

    text: str
    line: int
    raises: bool = False


def code_of(page: Path) -> Iterator[Code]:
    """The code of a page, a notebook or a program, piece by piece."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
        yield from (Code("".join(cell["source"]), 1) for cell in cells if cell["cell_type"] == "code")
        return
    for example in Document.parse(str(page), PythonCodeBlockParser()).examples():
        if isinstance(parsed := example.parsed, doctest.Example):
            yield Code(parsed.source, example.line, parsed.exc_msg is not None)
        else:
            yield Code(str(parsed), example.line + 1)


def runs_of(page: Path) -> tuple[ModuleType, list[PageRun]]:
    """The runs of a page, and the module of its classes and functions."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=str(page))
    with watched() as watcher, as_main(module), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for code in code_of(page):
            with pytest.raises(Exception, match=r".") if code.raises else nullcontext():
                exec(compile("\n" * (code.line - 1) + code.text, str(page), "exec"), module.__dict__)
        return module, watcher.finished()


_OPTIONS: Final = {"declared_aggregates": ["--local"], "leaderboard": ["plays.svg"], "sensor_min": ["--local"]}


def runs_of_program(path: Path) -> tuple[ModuleType, list[PageRun]]:
    """The runs of an example's ``main``, in the interpreter."""
    module = importlib.import_module(f"examples.{path.stem}")
    options = _OPTIONS.get(path.stem, [])
    with (
        TemporaryDirectory() as folder,
        watched() as watcher,
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        patch.setattr("sys.argv", [path.name, *options])
        main: Callable[..., None] = module.main
        main(*([options] if signature(main).parameters else []))
        return module, watcher.finished()

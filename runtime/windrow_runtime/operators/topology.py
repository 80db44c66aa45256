"""Divides a pipeline for engines: sources, keyed steps and sinks, with fragments of stateless steps between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.facts.reached import state_time_domains
from windrow.functions import TimeDomain
from windrow.plan import KeyByNode, Node, Pipeline, Step, TimestampsNode, WindowNode
from windrow.plan.pipeline import PipelineSink
from windrow.sinks import Sink
from windrow.sources import Source

# Any in this module: sources and sinks of elements of every type.


def source_of(step: Step) -> Source[Any]:
    """Returns the source that a step reads."""
    assert step.node.reads is not None, "it is the step of a source"
    return step.node.reads


def timestamps_of(step: Step) -> TimestampsNode:
    """Returns the node of a timestamp-assigning step."""
    assert isinstance(step.node, TimestampsNode), "it assigns timestamps"
    return step.node


def sink_of(step: Step) -> Sink[Any]:
    """Returns the sink that a step writes."""
    assert step.node.writes is not None, "it is the step of a sink"
    return step.node.writes


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a source or a keyed step: the id of the step, and the name of a side output, if it is one."""

    step: str
    tag: str | None = None


class Topology:
    """The boundaries of a pipeline, whose steps are in order: inputs before what reads them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._by_id = {step.id: step for step in steps}
        self.sources = tuple(step for step in steps if step.node.is_source)
        self.keyed = tuple(step for step in steps if step.node.is_keyed)
        self.sinks = tuple(step for step in steps if step.node.is_sink)
        self.timestamps = tuple(step for step in steps if step.node.makes_watermarks is not None)
        # The place of each keyed step among these, and of each sink among those: rows of the exchange name it.
        self.numbers = {step.id: number for steps in (self.keyed, self.sinks) for number, step in enumerate(steps)}
        self._readers: defaultdict[str, list[Step]] = defaultdict(list)
        self._takers: dict[frozenset[str], set[str]] = {}  # the steps that need objects, by those that columns feed
        for step in steps:
            for source in step.inputs:
                self._readers[source].append(step)
        self._depths: dict[str, int] = {}  # the highest number of keyed steps on a way to a step, itself included
        for step in steps:
            before = max((self._depths[source] for source in step.inputs), default=0)
            self._depths[step.id] = before + step.node.is_keyed
        # The level of a keyed step is 1 if it reads from no other keyed step, else one more than the highest of those.
        self.levels = {step.id: self._depths[step.id] for step in self.keyed}
        # The ids of the timestamp-assigning steps whose watermarks reach a step; keyed steps hand watermarks on, and a
        # source without timestamps has none.
        self.timestamp_steps = self._nearest(lambda node: node.makes_watermarks is not None)
        # The ids of the sources and the keyed steps whose elements reach a step through stateless steps alone.
        self.boundaries_before = self._nearest(lambda node: node.is_source or node.is_keyed)

    @property
    def depth(self) -> int:
        """The number of levels of keyed steps."""
        return max(self.levels.values(), default=0)

    @property
    def dropping(self) -> list[Step]:
        """The steps without keys that drop elements: the user's function raised, or the sink cannot write them."""
        policies = [(step, step.node.error_policy) for step in self.steps if not step.node.is_keyed]
        return [step for step, policy in policies if policy is not None and policy.drops]

    def feeding_level(self, sink: Step) -> int:
        """Returns the level whose keyed steps feed a sink alone; the last one where several do, or a source does."""
        levels = {self.levels.get(step, 0) for step in self.boundaries_before[sink.id]}
        return levels.pop() if len(levels) == 1 and 0 not in levels else self.depth

    @property
    def by_clock(self) -> list[Step]:
        """The keyed steps that wait for the clock."""
        return [step for step in self.keyed if uses_clock(step.node)]

    def step(self, identifier: str) -> Step:
        """The step with that id."""
        return self._by_id[identifier]

    def readers(self, step: Step) -> list[Step]:
        """The steps that read the main output of ``step``; side outputs are read through their port."""
        return [reader for reader in self._readers[step.id] if reader.node.side_output is None]

    def _side_outputs(self, step: Step) -> Iterator[tuple[Step, str]]:
        """The steps that take a side output of ``step``, also through a ``returns``, with the name of that output."""
        for reader in self._readers[step.id]:
            tag = reader.node.side_output
            if tag is not None:
                yield reader, tag.name
            if tag is not None or reader.node.states_type:
                yield from self._side_outputs(reader)

    def taps(self, step: Step) -> dict[str, list[Step]]:
        """The steps that read each side output of a step without state."""
        by_name: dict[str, list[Step]] = {}
        for tap, name in self._side_outputs(step):
            by_name.setdefault(name, []).extend(self.readers(tap))
        return by_name

    def node_of(self, port: Port) -> Node:
        """The node whose output leaves by a port: the step itself, or a tap of its side output."""
        step = self.step(port.step)
        if port.tag is None:
            return step.node
        return next(tap.node for tap, name in self._side_outputs(step) if name == port.tag)

    def entries(self, port: Port) -> list[Step]:
        """The steps that read from a port."""
        step = self.step(port.step)
        if port.tag is None:
            return self.readers(step)
        return [reader for tap, name in self._side_outputs(step) if name == port.tag for reader in self.readers(tap)]

    def ports(self, step: Step) -> list[Port]:
        """The outputs of a source or a keyed step that have readers."""
        main = [Port(step.id)] if self.readers(step) else []
        return main + [Port(step.id, tag) for tag in sorted({name for _, name in self._side_outputs(step)})]

    def needs_objects(self, step: Step, fed_by_columns: frozenset[str]) -> bool:
        """Returns whether a step, or a sink or keyed step downstream of it that columns do not feed, reads objects."""
        if fed_by_columns not in self._takers:
            takers: set[str] = set()
            for each in reversed(self.steps):
                readers = [*self.readers(each), *chain.from_iterable(self.taps(each).values())]
                is_end = each.node.is_keyed or each.node.is_sink
                if each.id not in fed_by_columns if is_end else any(reader.id in takers for reader in readers):
                    takers.add(each.id)
            self._takers[fed_by_columns] = takers
        return step.id in self._takers[fed_by_columns]

    def keyed_before(self, step: Step) -> bool:
        """Returns whether a step's elements come from a keyed step."""
        return any(self._depths[source] for source in step.inputs)

    def key_by(self, step: Step) -> KeyByNode | None:
        """The ``key_by`` upstream of a keyed step; None where the stream has no keys."""
        return self.step(step.inputs[0]).node.keys

    def fed_only_by(self, sources: Collection[str], *, through_keyed: bool = True) -> set[str]:
        """The ids of sources and of the steps that read from them alone; up to keyed steps if not ``through_keyed``."""
        fed = {step.id for step in self.sources if step.id in sources}
        for step in self.steps:
            if step.inputs and fed.issuperset(step.inputs) and (through_keyed or not step.node.is_keyed):
                fed.add(step.id)
        return fed

    def _nearest(self, is_wanted: Callable[[Node], bool]) -> dict[str, tuple[str, ...]]:
        """The ids of the wanted steps upstream of each step: on each way, the last one."""
        nearest: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            ways = [(each,) if is_wanted(self.step(each).node) else nearest[each] for each in step.inputs]
            nearest[step.id] = ways[0] if len(ways) == 1 else tuple(dict.fromkeys(chain.from_iterable(ways)))
        return nearest


def in_processing_time(node: WindowNode) -> bool:
    """Returns whether windows fire in processing time."""
    # Windows on the clock are cleaned up by it; the global window never is.
    return node.effective_trigger.uses_processing_time or node.spec.by_clock


def uses_clock(node: Node) -> bool:
    """Returns whether a keyed step waits for the clock: its windows, timers that its class declares, or its state.

    A process function whose state expires in processing time need not say so, where the plan sees its descriptors.
    """
    if node.windows is not None:
        return in_processing_time(node.windows)
    function = node.process_function
    if function is None:
        return False
    return function.uses_processing_time or TimeDomain.PROCESSING_TIME in state_time_domains(function)


def topology_of(pipeline: Pipeline) -> Topology:
    """Returns the topology of a pipeline that a user gave a runner.

    Raises:
        InvalidArgumentError: If it is no pipeline but, say, a stream; with how a pipeline is made of that.
    """
    if isinstance(pipeline, Pipeline):
        return Topology(pipeline.steps)
    hint = 'Pipeline("name", stream.sink_to(CollectSink()))'
    if isinstance(pipeline, PipelineSink):
        hint = 'Pipeline("name", sink), with what sink_to gave'
    elif isinstance(pipeline, type):
        hint = f"an instance, not the class; {hint}"
    raise InvalidArgumentError(
        "a runner runs a pipeline", given=f"a {type(pipeline).__name__}", expected="a Pipeline", hint=hint
    )


def check_step_names(accept_changes: Collection[str]) -> None:
    """Raises an ``InvalidArgumentError`` if the steps whose changes a run accepts are no list of texts."""
    if isinstance(accept_changes, str) or not all(isinstance(name, str) for name in accept_changes):
        raise InvalidArgumentError(
            "accept_changes takes steps", given=accept_changes, expected="a list of ids or names of steps"
        )

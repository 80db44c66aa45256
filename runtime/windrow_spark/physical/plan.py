"""Defines the physical plan: how each keyed step and each sink runs, and how elements get there.

It is made in one pass over the steps in order, and keeps why a step takes no columns. Engines, ``explain()``, the
description of a checkpoint and workers read it, and decide nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from windrow.panes import Change
from windrow.plan import Form, Step
from windrow_runtime.operators.choose import form_text
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Port, Topology

if TYPE_CHECKING:
    from windrow_runtime.codecs.value_type import RecordType
    from windrow_spark.columnar.forms.result_type import OnColumns
    from windrow_spark.columnar.forms.route import Route, ScanTarget
    from windrow_spark.columnar.forms.row_form import RowForm, TaskAggregation

F_co = TypeVar("F_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Objects:
    """The reason why a step runs on Python objects, or gets its elements as objects."""

    reason: str

    def with_steps(self, by_id: object) -> Objects:
        """Returns the same form; one on columns has routes, which lead through the given steps."""
        return self


def decided(decide: Callable[[], T]) -> T | Objects:
    """Returns a decision for columns, or the reason why they are declined."""
    try:
        return decide()
    except DeclinedError as declined:
        return Objects(str(declined))


@dataclass(frozen=True, slots=True)
class ColumnEdge(Generic[F_co]):
    """Leads elements as columns to a keyed step or a sink, from a source or a keyed step."""

    number: int  # names the consumer in rows of the exchange, among keyed steps or among sinks
    form: F_co  # how the consumer takes columns
    route: Route | None = None  # the steps in between; None: there are none


TURNED_OFF = Objects("they are turned off")
"""Says that the user does without columns."""


@dataclass(frozen=True, slots=True)
class PhysicalStep:
    """A keyed step as it runs."""

    step: Step
    form: OnColumns | Objects  # how it runs on columns
    arrival: RowForm | Objects  # how elements in columns get to it where it runs on objects
    aggregation: TaskAggregation | Objects  # how tasks aggregate these before the exchange
    results: RecordType | Objects  # the type of its results as columns
    unguarded: OnColumns | None = None  # the form of its stored state, where a policy for what fails is new

    @property
    def on_columns(self) -> OnColumns | None:
        """The form in which it runs on columns; None: it runs on objects."""
        return None if isinstance(self.form, Objects) else self.form

    @property
    def takes_columns(self) -> ScanTarget | None:
        """The form by which it gets elements as columns; None: it gets objects."""
        form = self.on_columns or self.row_form
        return None if form is None or form.takes_objects else form

    @property
    def row_form(self) -> RowForm | None:
        """The form in which it runs on objects and gets columns; None: it runs on columns, or gets objects."""
        return None if self.on_columns or isinstance(self.arrival, Objects) else self.arrival

    @property
    def takes_any_order(self) -> bool:
        """Whether windows have the same contents, and joins the same pairs, in whatever order a batch's elements come.

        The function is commutative then; among equal elements, of which ``max_by`` takes the first, the order counts.
        """
        if self.makes_pairs:
            return True
        by_tasks, kernel = self.aggregation, getattr(self.on_columns, "kernel", None)
        is_ordered = kernel is not None and kernel.ordered
        return not isinstance(by_tasks, Objects) and by_tasks.function.can_share and not is_ordered

    @property
    def makes_pairs(self) -> bool:
        """Whether it joins elements on columns, so that its results come in the order of the elements."""
        return self.on_columns is not None and self.on_columns.makes_pairs

    def describe(self) -> Form:
        """Describes for ``explain()`` how the step runs and, if not on columns, why, and how elements get there."""
        if not isinstance(self.form, Objects):
            return self.form.describe()
        on_objects = form_text(self.step)
        why: object = self.arrival
        if isinstance(self.arrival, Objects):
            lacking = "elements cross the exchange one by one"
        else:
            on_objects += f", {self.arrival.describe()}"
            lacking = "not partially aggregated before the exchange"
            why = self.aggregation
        form = Form(on_objects, (f"not on columns: {self.form.reason}",))
        if not isinstance(why, Objects) or why.reason in str(form):
            return form
        return replace(form, reasons=(*form.reasons, f"{lacking}: {why.reason}"))


@dataclass(frozen=True, slots=True)
class PhysicalSink:
    """A sink that takes columns, as far as routes lead its elements there as columns."""

    step: Step
    record_type: RecordType | None  # the type of its elements; None: they have no columns
    routes: tuple[Route, ...] | Objects  # from each source and each keyed step on columns

    def describe(self) -> Form:
        """Describes for ``explain()`` how elements get there and, if not as columns, why."""
        if isinstance(self.routes, Objects):
            return Form("Python, element by element", (f"not on columns: {self.routes.reason}",))
        return Form("columns, in Arrow")

    def with_steps(self, by_id: Mapping[str, Step]) -> PhysicalSink:
        """Returns the same sink, with routes through other steps, such as those of workers, by their ids."""
        routes = self.routes
        if not isinstance(routes, Objects):
            routes = tuple(route.with_steps(by_id) for route in routes)
        return replace(self, step=by_id[self.step.id], routes=routes)

    def columns_needed(self, route: Route) -> frozenset[str] | None:
        """The columns that a source or step has to give where a route begins; None: all."""
        return route.columns_needed(None)


StepEdge: TypeAlias = "ColumnEdge[ScanTarget]"
SinkEdge: TypeAlias = "ColumnEdge[PhysicalSink]"


class Planner(Protocol):
    """Plans one step after another, in order. A sink without a plan is written from objects."""

    def stateless(self, step: Step) -> None: ...
    def keyed(self, step: Step) -> PhysicalStep: ...
    def sink(self, step: Step) -> PhysicalSink | None: ...


class PhysicalPlan:
    """A pipeline as an engine runs it, on columns where the planner finds forms for them."""

    def __init__(self, topology: Topology, planner: Planner | Objects = TURNED_OFF) -> None:
        self.topology = topology
        self.keyed: dict[str, PhysicalStep] = {}  # by id, as the sinks
        self.sinks: dict[str, PhysicalSink] = {}
        for step in topology.steps:
            if isinstance(planner, Objects):
                if step.node.is_keyed:
                    self.keyed[step.id] = PhysicalStep(step, planner, planner, planner, planner)
            elif step.node.is_keyed:
                self.keyed[step.id] = planner.keyed(step)
            elif not step.node.is_sink:
                planner.stateless(step)
            elif (sink := planner.sink(step)) is not None:
                self.sinks[step.id] = sink

    def forms(self) -> dict[str, Form]:
        """Describes for ``explain()`` how each keyed step of a new run runs, and sinks that take columns."""
        forms = {step_id: step.describe() for step_id, step in self.keyed.items()}
        for step_id, sink in self.sinks.items():
            # A sink downstream of a keyed step runs as that step says, unless steps in between leave the columns.
            leaves_columns = isinstance(sink.routes, Objects) and self.on_columns.issuperset(
                self.topology.boundaries_before[step_id]
            )
            if leaves_columns or not self.topology.keyed_before(sink.step):
                forms[step_id] = sink.describe()
        return forms

    @cached_property
    def state_ids(self) -> dict[str, str]:
        """The name under which each step's state is stored, by the id of the step.

        A step that has a name is found by it, wherever it stands. Others are counted among those of their kind, so
        steps without state and steps with a name may come and go around them. Each scope counts its own.
        """
        names: dict[str, str] = {}
        for step in (*self.topology.keyed, *self.topology.timestamps):
            name = step.name
            numbered = (f"#{step.scope}{step.node.kind}-{number}" for number in count(1))
            renamed = (f"{name}#{number}" for number in count(2))
            candidates = numbered if name is None else chain([name], renamed)
            names[step.id] = next(candidate for candidate in candidates if candidate not in names.values())
        return names

    @cached_property
    def on_columns(self) -> frozenset[str]:
        """The ids of the keyed steps that run on columns."""
        return frozenset(step_id for step_id, step in self.keyed.items() if step.on_columns)

    def shipped(self, steps: Sequence[Step], on_columns: Collection[str]) -> PhysicalPlan:
        """Returns the plan through the steps as workers get them; only steps ``on_columns``, by id, run on columns.

        Others have their stored state in objects.
        """
        plan, by_id = PhysicalPlan(Topology(steps)), {step.id: step for step in steps}
        on_objects = Objects("its state is stored as objects")
        for step_id, planned in self.keyed.items():
            plan.keyed[step_id] = replace(
                planned,
                step=by_id[step_id],
                form=planned.form.with_steps(by_id) if step_id in on_columns else on_objects,
                arrival=planned.arrival.with_steps(by_id),
            )
        plan.sinks = {step_id: sink.with_steps(by_id) for step_id, sink in self.sinks.items()}
        return plan

    def edges(self, source: str) -> tuple[StepEdge, ...]:
        """Returns the edges by which a source or a keyed step gives columns to keyed steps."""
        return tuple(
            ColumnEdge(self.topology.numbers[step_id], form, route)
            for step_id, step in self.keyed.items()
            if (form := step.takes_columns) is not None
            for route in form.routes
            if route.source == source
        )

    @cached_property
    def object_edges(self) -> dict[str, tuple[StepEdge, ...]]:
        """The edges that lead objects to steps on columns, by the ids of these steps."""
        forms = {step_id: step.on_columns for step_id, step in self.keyed.items()}
        return {
            step_id: tuple(ColumnEdge(self.topology.numbers[step_id], form, route) for route in form.routes)
            for step_id, form in forms.items()
            if form is not None and form.takes_objects
        }

    def sink_edges(self, port: Port) -> tuple[SinkEdge, ...]:
        """Returns the edges by which a source or a keyed step gives columns to sinks."""
        if port.step in self.keyed:
            return self._direct_sinks(port)
        return () if port.tag is not None else tuple(self._edges_to_sinks(port.step))

    def _edges_to_sinks(self, source: str) -> Iterator[SinkEdge]:
        for step_id, sink in self.sinks.items():
            routes = () if isinstance(sink.routes, Objects) else sink.routes
            number = self.topology.numbers[step_id]
            yield from (ColumnEdge(number, sink, route) for route in routes if route.source == source)

    def _direct_sinks(self, port: Port) -> tuple[SinkEdge, ...]:
        """Returns the edges to sinks from an output of a keyed step; none if anything takes its elements as objects."""
        edges: dict[int, SinkEdge] = {}
        fed = self._fed
        if port.tag is None:
            edges = {edge.number: edge for edge in self._edges_to_sinks(port.step)}
            fed |= {step_id for step_id, sink in self.sinks.items() if not isinstance(sink.routes, Objects)}
        readers = self.topology.entries(port)
        while readers:
            reader = readers.pop()
            # A sink of `Change`s takes the columns of the values that the changes wrap.
            plain = reader.node.plain_function
            gives_changes = reader.node.ends_changes and plain is not None and plain.function is Change
            if reader.node.states_type or gives_changes:
                readers += self.topology.readers(reader)
            elif (sink := self.sinks.get(reader.id)) is not None and sink.record_type is not None:
                number = self.topology.numbers[reader.id]
                edges[number] = ColumnEdge(number, sink)
            elif self.topology.needs_objects(reader, fed):
                return ()
        return tuple(edges.values())

    def fed_by_columns(self, port: Port) -> frozenset[str]:
        """Returns the ids of the keyed steps and the sinks that take no objects from a port."""
        # Sinks get the results of keyed steps as objects, too: where their batches have no columns.
        sinks = () if port.step in self.keyed else self.sink_edges(port)
        return self._fed.union(edge.form.step.id for edge in sinks)

    @cached_property
    def _fed(self) -> frozenset[str]:
        return frozenset(step_id for step_id, step in self.keyed.items() if step.takes_columns)

    def columns_needed(self, source: str) -> frozenset[str] | None:
        """Returns the columns of a source that are needed; None: all, or its elements become objects."""
        port = Port(source)
        fed = self.fed_by_columns(port)
        if any(self.topology.needs_objects(reader, fed) for reader in self.topology.entries(port)):
            return None
        edges: list[StepEdge | SinkEdge] = [*self.edges(source), *self.sink_edges(port)]
        by_edge = [None if edge.route is None else edge.form.columns_needed(edge.route) for edge in edges]
        needed = [columns for columns in by_edge if columns is not None]
        return frozenset().union(*needed) if len(needed) == len(by_edge) else None

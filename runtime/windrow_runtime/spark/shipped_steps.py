"""Describes the steps of a plan for workers: how each keyed step runs, how elements get there, where its results go."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from windrow.panes import Change
from windrow.plan import ChangelogNode, ReturnsNode, SinkNode, Step
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.columnar.forms.result_type import results_of
from windrow_runtime.columnar.forms.route import CheckSource, Route, ScanTarget
from windrow_runtime.columnar.forms.row_form import RowForm, row_form
from windrow_runtime.columnar.forms.sink_form import PlanForm, SinkForm
from windrow_runtime.columnar.forms.step_form import OnColumns
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Port, Topology, is_keyed
from windrow_runtime.spark.clock import ClockFiles
from windrow_runtime.spark.exchange.column_sender import ColumnTarget
from windrow_runtime.spark.exchange.fragment import PortFragment, Routes, Watermarks
from windrow_runtime.spark.exchange.sink_columns import SinkTarget
from windrow_runtime.spark.keyed.level import KeyedStep
from windrow_runtime.spark.shipping import without_sources_and_sinks
from windrow_runtime.spark.sinks.table import takes_columns


class ShippedSteps:
    """The steps of a plan as workers get them, from the forms of keyed steps and of sinks by their ids.

    Keyed steps with a columnar form run on columns if they are among ``columnar``, which names them by id: others have
    their stored state in objects. Without forms nothing is done on columns.
    """

    def __init__(
        self,
        topology: Topology,
        forms: Mapping[str, PlanForm],
        columnar: Collection[str],
        state_ids: Mapping[str, str],
        clock: ClockFiles | None,
        check_source: CheckSource,
        watermarks: Watermarks | None = None,
    ) -> None:
        self._whole = topology
        # Workers get the steps without sources and sinks, which only the driver can load.
        self.topology = Topology(without_sources_and_sinks(topology.steps))
        self._state_ids = state_ids
        self._clock = clock
        self._watermarks = watermarks
        self._all_forms = forms
        self.forms: dict[str, OnColumns] = {}
        self._arrivals: dict[str, RowForm] = {}
        for step in self.topology.keyed if forms else ():
            form = forms[step.id]
            if isinstance(form, OnColumns) and step.id in columnar:
                self.forms[step.id] = replace(form, step=step, routes=self._shipped(form.routes))
                continue
            with suppress(DeclinedError):
                arrival = row_form(topology, topology.step(step.id), check_source, partial(results_of, forms))
                self._arrivals[step.id] = replace(arrival, step=step, routes=self._shipped(arrival.routes))
        self._sink_forms = {
            step: replace(form, routes=self._shipped(form.routes))
            for step, form in forms.items()
            if isinstance(form, SinkForm)
        }
        # The steps that get their elements as columns.
        self._by_columns: Mapping[str, ScanTarget] = {**self.forms, **self._arrivals}
        self._routes = Routes(
            {step.id: number for number, step in enumerate(topology.keyed)},
            {step.id: number for number, step in enumerate(topology.sinks)},
            topology.levels,
        )

    def _shipped(self, routes: Sequence[Route]) -> tuple[Route, ...]:
        """Returns the routes through the steps as workers get them."""
        return tuple(route.with_steps(self.topology) for route in routes)

    def create(self, port: Port) -> partial[PortFragment]:
        """Returns what makes the fragment behind a port, without the keyed steps and the sinks that columns feed."""
        fed = {*self._by_columns, *(target.step_id for target in self.sinks_of(port.step) if port.tag is None)}
        return partial(PortFragment, self.topology, port, self._routes, self._clock, frozenset(fed), self._watermarks)

    def sinks_of(self, source: str) -> tuple[SinkTarget, ...]:
        """Returns the sinks that take what a source gives as columns."""
        if is_keyed(self.topology.step(source).node):
            return ()  # they get its results as objects where its batches have no columns
        return tuple(
            self._sink_target(form.step, form.kind, route)
            for form in self._sink_forms.values()
            for route in form.routes
            if route.source == source
        )

    def columns_needed(self, source: Step) -> frozenset[str] | None:
        """Returns the columns of a source that are needed; None: all, or its elements become objects."""
        sinks = self.sinks_of(source.id)
        fed = frozenset({*self._by_columns, *(target.step_id for target in sinks)})
        if any(self._whole.needs_objects(reader, fed) for reader in self._whole.entries(Port(source.id))):
            return None
        found = [target.form.columns_needed(target.route) for target in self.targets(source)]
        found += [None if target.route is None else target.route.columns_needed(None) for target in sinks]
        needed = [columns for columns in found if columns is not None]
        return frozenset().union(*needed) if len(needed) == len(found) else None

    def _sink_target(self, step: Step, kind: RecordType, route: Route | None = None) -> SinkTarget:
        return SinkTarget(self._routes.sinks[step.id], step.id, step.where, kind, route)

    def targets(self, step: Step) -> tuple[ColumnTarget, ...]:
        """Returns the keyed steps that take what a source or a keyed step gives as columns."""
        return tuple(
            ColumnTarget(self._routes.steps[step_id], form, route)
            for step_id, form in self._by_columns.items()
            for route in form.routes
            if route.source == step.id
        )

    def level(self, number: int) -> tuple[KeyedStep, ...]:
        """Returns the keyed steps of a level; the first one has the number 1."""
        levels = self.topology.levels
        return tuple(self._keyed_step(step) for step in self.topology.keyed if levels[step.id] == number)

    def _keyed_step(self, step: Step) -> KeyedStep:
        ports, targets = self.topology.ports(step), self.targets(step)
        direct = self._direct_sinks(Port(step.id))
        has_types = bool(targets) or any(target.route is not None for target in direct)
        return KeyedStep(
            number=self._routes.steps[step.id],
            step_id=step.id,
            state_id=self._state_ids[step.id],
            create=partial(operator_for, step),
            output=self.create(Port(step.id))() if Port(step.id) in ports else None,
            side_outputs={port.tag: self.create(port)() for port in ports if port.tag is not None},
            has_watermark=bool(self.topology.timestamp_steps(step)),
            name=step.node.name,
            where=step.where,
            form=self.forms.get(step.id),
            arrival=self._arrivals.get(step.id),
            targets=targets,
            results=results_of(self._all_forms, step) if has_types else None,
            direct_sinks=direct,
            side_sinks={port.tag: self._direct_sinks(port) for port in ports if port.tag is not None},
        )

    def _direct_sinks(self, port: Port) -> tuple[SinkTarget, ...]:
        """Returns the sinks that take an output of a step as columns; none if anything takes it as objects."""
        found: list[SinkTarget] = []
        readers = self._whole.entries(port)
        while readers:
            reader = readers.pop()
            # A sink of changes has the columns of these.
            is_log = isinstance(reader.node, ChangelogNode) and reader.node.function is Change
            if isinstance(reader.node, ReturnsNode) or is_log:
                readers += self._whole.readers(reader)
                continue
            if not self.topology.needs_objects(reader, frozenset(self._by_columns)):
                continue
            if isinstance(reader.node, SinkNode) and takes_columns(reader):
                found.append(self._sink_target(reader, record_type(reader.node.element_type)))
                continue
            behind = None if port.tag is not None else self._sinks_behind(reader, port.step)
            if behind is None:
                return ()
            found += behind
        return tuple(found)

    def _sinks_behind(self, step: Step, source: str) -> list[SinkTarget] | None:
        """Returns the sinks behind a step without state that take what it makes of results as columns.

        None: something there takes objects.
        """
        if is_keyed(step.node):
            return [] if step.id in self._by_columns else None
        if isinstance(step.node, SinkNode):
            form = self._sink_forms.get(step.id)
            routes = () if form is None else [route for route in form.routes if route.source == source]
            return None if form is None else [self._sink_target(form.step, form.kind, route) for route in routes]
        behind = [self._sinks_behind(reader, source) for reader in self._whole.readers(step)]
        if self._whole.taps(step) or any(each is None for each in behind):
            return None
        return [target for each in behind if each is not None for target in each]

"""Decides which keyed steps and sinks of a plan take columns, and in which form."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from windrow.plan import Step
from windrow_runtime.codecs.arrow.encoding import arrow_type
from windrow_runtime.codecs.value_type import RecordType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar.forms.columnar_form import columnar_form
from windrow_spark.columnar.forms.first_form import passing_form
from windrow_spark.columnar.forms.join_form import join_form
from windrow_spark.columnar.forms.result_type import OnColumns, result_type
from windrow_spark.columnar.forms.route import Route
from windrow_spark.columnar.forms.route_step import columns_type
from windrow_spark.columnar.forms.row_form import RowForm, row_form, task_aggregation_of
from windrow_spark.physical.plan import Objects, PhysicalSink, PhysicalStep, Planner, decided
from windrow_spark.physical.streams import CheckSource, Streams


class ColumnPlanner(Planner):
    """Plans one step after another, in order, for an engine: on columns where it can.

    ``check_source`` declines sources that give the engine no columns, and ``takes_columns`` knows the sinks that it
    writes from columns. Steps that are ``stored`` on columns, by id, stay there: where their elements come as objects,
    these become columns before the exchange. So do steps behind one that takes elements one by one as it has a policy
    for those that fail.
    """

    def __init__(
        self,
        check_source: CheckSource,
        takes_columns: Callable[[Step], bool] = lambda sink: False,
        stored: Collection[str] = (),
    ) -> None:
        self._streams = Streams(check_source)
        self._takes_columns = takes_columns
        self._stored = stored

    def stateless(self, step: Step) -> None:
        self._streams.add(step)

    def sink(self, step: Step) -> PhysicalSink | None:
        if not self._takes_columns(step):
            return None
        kind = decided(lambda: columns_type(step.node.element_type))
        if step.node.error_policy is not None:
            kind = Objects("the sink has a policy for elements that it cannot write, so it takes them one by one")
        if isinstance(kind, Objects):
            return PhysicalSink(step, None, kind)
        return PhysicalSink(step, kind, decided(lambda: self._sink_routes(step, kind)))

    def keyed(self, step: Step) -> PhysicalStep:
        form = self._decided_form(step)
        aggregation = decided(lambda: task_aggregation_of(step))
        by_tasks = None if isinstance(aggregation, Objects) else aggregation
        arrival: RowForm | Objects = decided(lambda: row_form(step, self._streams.routes_to, by_tasks))
        results = _results(step, form)
        unguarded = self._unguarded(step)
        self._streams.add(step, results, stamped=isinstance(form, Objects) or form.gives_stamps)
        return PhysicalStep(step, form, arrival, aggregation, results, unguarded)

    def _unguarded(self, step: Step) -> OnColumns | None:
        """Returns the form that a step with state on columns would have without a policy; None: it has no policy."""
        if step.node.error_policy is None or step.id not in self._stored:
            return None
        form = decided(lambda: self._form_of(step, own_policy=False))
        if isinstance(form, Objects):
            form = decided(lambda: self._form_of(step, of_objects=True, own_policy=False))
        return None if isinstance(form, Objects) else form

    def _decided_form(self, step: Step) -> OnColumns | Objects:
        form = decided(lambda: self._form_of(step))
        if isinstance(form, Objects) and (step.id in self._stored or self._is_only_guarded(step)):
            of_objects = decided(lambda: self._form_of(step, of_objects=True))
            return form if isinstance(of_objects, Objects) else of_objects
        return form

    def _is_only_guarded(self, step: Step) -> bool:
        """Returns whether a step would run on columns if no step upstream had a policy for elements that fail."""
        return not isinstance(decided(lambda: self._form_of(step, policies=False)), Objects)

    def _form_of(
        self, step: Step, *, of_objects: bool = False, policies: bool = True, own_policy: bool = True
    ) -> OnColumns:
        """The form of a keyed step on columns; declined where it has none."""
        if own_policy and step.node.error_policy is not None:
            raise DeclinedError("a call that fails changes nothing, which takes Python objects")
        if step.node.pair_function is not None:
            return join_form(step, partial(self._streams.side_routes, of_objects=of_objects, policies=policies))
        form_of = columnar_form if step.node.process_function is None else passing_form
        return form_of(step, partial(self._streams.routes_to, of_objects=of_objects, policies=policies))

    def _sink_routes(self, step: Step, record_type: RecordType) -> tuple[Route, ...]:
        """The routes to a sink; declined where its elements do not get there as columns."""
        for route in (routes := self._streams.routes_from(step.inputs[0])):
            _check_fits(route.element, record_type)
        return routes


def _results(step: Step, form: OnColumns | Objects) -> RecordType | Objects:
    """The type of the results of a keyed step, or why they are no columns."""
    if isinstance(form, Objects):
        return Objects(f"{step.id} is upstream")
    kind = decided(lambda: result_type(form))
    return Objects(f"{step.id} is upstream: {kind.reason}") if isinstance(kind, Objects) else kind


def _check_fits(element: RecordType, wanted: RecordType) -> None:
    """Declines columns that differ from those that the sink would make of the elements."""
    if len(element.columns) != len(wanted.columns) or element.single != wanted.single:
        raise DeclinedError(f"the columns of a {element} are not those of a {wanted}")
    for one, other in zip(element.columns, wanted.columns, strict=True):
        same = one.column == other.column and one.type.kind is other.type.kind
        if not same or arrow_type(one.type) != arrow_type(other.type):
            raise DeclinedError(f"{wanted.prefix}{other.name} is a {other.type}, and it gets a {one.type}")
        if one.type.nullable and not other.type.nullable:
            raise DeclinedError(f"{wanted.prefix}{other.name} may get None")

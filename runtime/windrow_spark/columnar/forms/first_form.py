"""Decides which ``distinct``, ``first`` and ``on_change`` run on columns: those that compare values of columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from windrow.functions.wrapper import unwrapped
from windrow.plan import Form, Step
from windrow.plan.records import has_generated, is_users_method
from windrow.rows.repeated import OnChange, PassesFirst
from windrow.time import TimeDomain
from windrow_runtime.codecs.value_type import Kind, RecordType
from windrow_runtime.operators.errors import DeclinedError
from windrow_spark.columnar import Ints
from windrow_spark.columnar.changed_elements import ChangeOperator
from windrow_spark.columnar.expressions.over_columns import PLAIN, ColumnExpression
from windrow_spark.columnar.first_elements import FirstOperator
from windrow_spark.columnar.forms.columnar_form import check_ends, check_near, input_of, text_of_state
from windrow_spark.columnar.forms.route import Route, RoutesTo, ScanTarget
from windrow_spark.columnar.forms.route_step import check_parts_only
from windrow_spark.columnar.rows.columns import WholeElement
from windrow_spark.columnar.rows.groups import hash_keys

# Any: functions of elements of every type.


@dataclass(frozen=True)
class PassingForm(ScanTarget):
    """A step on columns that passes on some elements, and leaves out those that are like one before."""

    value: ColumnExpression | WholeElement | None  # what alike elements share; None: their key alone

    counts_windows: ClassVar[bool] = False

    hash_keys = staticmethod(hash_keys)

    @property
    @abstractmethod
    def operator(self) -> FirstOperator | ChangeOperator:
        """Runs the step on a key group."""

    @property
    def gives_stamps(self) -> bool:
        return all(route.is_stamped for route in self.routes)

    @property
    def may_lack_stamps(self) -> bool:
        return self.timed_part is None and self.takes_objects

    @cached_property
    def raw_schema(self) -> pa.Schema:
        return self._schema_of(self._element_fields())

    @property
    def exchange_schema(self) -> pa.Schema:
        """The columns of elements that cross the exchange."""
        return self.raw_schema

    @property
    def partial_schema(self) -> pa.Schema:
        """The same for partial aggregates, of which there are none."""
        return self.raw_schema

    @property
    def state_text(self) -> str:
        """The columns of the step's state, as a checkpoint stores them: a form with others cannot read the state."""
        return self.state_text_of(None)

    def state_text_of(self, fields: Sequence[str] | None) -> str:
        """Returns the same for elements of a class that has these fields alone; None: as it is now."""
        return text_of_state(self.operator.schema, self.element, fields)

    def describe(self) -> Form:
        """The form, for ``explain()``."""
        return Form("columns")


@dataclass(frozen=True)
class FirstForm(PassingForm):
    """A step on columns that passes on the first of alike elements, and none for a time."""

    millis: int  # that time
    state_name: str  # the name of the state of the function
    domain: TimeDomain  # of that time

    @property
    def by_clock(self) -> bool:
        """Returns whether elements are alike for a time by the clock."""
        return self.domain is TimeDomain.PROCESSING_TIME

    @property
    def timed_part(self) -> str | None:
        return None if self.by_clock else "state that expires in event time"

    def check(self, stamps: Ints) -> None:
        """Refuses timestamps beyond 73 million years, with which arithmetic would leave 64 bits."""
        if not self.by_clock:
            check_near(stamps)

    @cached_property
    def operator(self) -> FirstOperator:
        """Runs the step on a key group."""
        return FirstOperator(self.key_type, self.element, self.value, self.millis, self.by_clock)

    def describe(self) -> Form:
        return Form("columns, in processing time" if self.by_clock else "columns")


@dataclass(frozen=True)
class ChangeForm(PassingForm):
    """A step on columns that passes on elements whose value is another than that of the key's element before."""

    value: ColumnExpression | WholeElement
    state_name: str  # the name of the state of the function

    @cached_property
    def operator(self) -> ChangeOperator:
        """Runs the step on a key group."""
        return ChangeOperator(self.key_type, self.element, self.value)


def passing_form(step: Step, routes_to: RoutesTo) -> PassingForm:
    """The form of a process function on columns; declined where it has none."""
    function = unwrapped(step.node.process_function)
    if not isinstance(function, OnChange | PassesFirst):
        raise DeclinedError("a process function sees each element")
    ttl = function.seen.ttl if isinstance(function, PassesFirst) else None
    routes = routes_to(step, stamped=ttl is not None and ttl.time_domain is TimeDomain.EVENT_TIME)
    check_ends(routes)
    _check_alike(routes)
    element = routes[0].element
    if isinstance(function, OnChange):
        return ChangeForm(step, routes, _value_of(function.selector, element), function.before.name)
    assert ttl is not None, "elements pass again after a time"
    value = _value_of(function.selector, element) if function.compares_values else None
    return FirstForm(step, routes, value, ttl.millis, function.seen.name, ttl.time_domain)


def _check_alike(routes: Sequence[Route]) -> None:
    """Declines columns of elements of which some have timestamps and others none: objects tell it one by one."""
    if len({route.is_stamped for route in routes}) > 1:
        raise DeclinedError("some elements may have no timestamps")


def _value_of(selector: Callable[[Any], Any] | None, element: RecordType) -> ColumnExpression | WholeElement:
    """What columns compare; declined where Python may find other elements to be alike."""
    value = input_of(element, selector, "the selector")
    if isinstance(value, WholeElement):
        check_parts_only(element)
        _check_equality(element.root.python_type)
        parts = [field.type for field in element.columns]
    else:
        kind = value.value.kind
        parts = [*value.value.arguments] if kind is Kind.TUPLE and not value.value.nullable else [value.value]
    for part in parts:
        if part.kind not in PLAIN:
            raise DeclinedError(f"it compares values that are a {part}")
    return value


def _check_equality(class_: type[Any]) -> None:
    """Declines records that are equal by another rule than that of all their fields."""
    methods = ("__eq__", "__hash__")
    if is_dataclass(class_):
        is_plain = all(has_generated(class_, each) for each in methods) and all(each.compare for each in fields(class_))
    else:
        is_plain = issubclass(class_, tuple) and not any(is_users_method(class_, each) for each in methods)
    if not is_plain:
        raise DeclinedError(f"it compares elements as {class_.__name__} says")

"""Describes a step between a source, or a keyed step, and the next keyed step or sink, as columns take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from windrow.aggregates import Expression, Opaque, recognise
from windrow.errors import InvalidArgumentError
from windrow.expressions.tree import Constant, Record
from windrow.kafka import KafkaRecord
from windrow.plan import FilterNode, MapNode, Node, Step, TimestampsNode
from windrow.plan.records import hook_of
from windrow.watermarks import BoundedOutOfOrdernessWatermarks, NoWatermarks
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.arrow.parquet import UNREAD
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import Kind, RecordField, RecordType, ValueType
from windrow_runtime.operators.errors import USER_ERRORS, DeclinedError, field_errors, raise_call_error, shortened
from windrow_spark.columnar.expressions.built_in_on_columns import NotInColumnsError
from windrow_spark.columnar.expressions.over_columns import ColumnExpression, ColumnRecord, column_expression
from windrow_spark.columnar.rows.columns import check_element

_KEYS = frozenset({Kind.STR, Kind.INT, Kind.BOOL, Kind.BYTES})

# Any in this module: functions of elements of every type, and pyarrow has no types.


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A step that filters elements, stamps them, or makes a value or a record of each."""

    step: Step
    element: RecordType  # the type of the elements
    result: RecordType  # the type of what it makes of them
    expression: ColumnExpression | ColumnRecord | None  # None: it takes the timestamps that elements have
    function: Callable[[Any], Any] | None = None  # None: there is none, as there is no expression
    recognised: Expression | None = None  # what the function computes of an element, as the expression has it
    makes: bool = False  # whether it makes an element of each
    filters: bool = False  # whether it keeps some elements

    @property
    def may_outgrow(self) -> bool:
        """Returns whether Python may make an int of more than 64 bits, which sinks refuse and keyed steps take."""
        expressions = self.expression.fields if isinstance(self.expression, ColumnRecord) else (self.expression,)
        return self.makes and any(part is not None and part.may_outgrow for part in expressions)

    @property
    def is_total(self) -> bool:
        """Returns whether columns give what it computes for every batch, so that its function raises for no element."""
        expressions = self.expression.fields if isinstance(self.expression, ColumnRecord) else (self.expression,)
        return all(part is None or part.is_total for part in expressions)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.RecordBatch:
        """Computes what the function gives for the elements of a batch."""
        assert self.expression is not None, "asked by the caller"
        named = dict(zip(batch.schema.names, batch.columns, strict=True))
        try:
            return self.expression.evaluate(named)
        except NotInColumnsError:
            return self._in_python(batch)

    def _in_python(self, batch: pa.RecordBatch) -> pa.Array | pa.RecordBatch:
        """Computes the same element by element in Python; where that fails, the function is called for its error."""
        assert self.recognised is not None, "there is an expression"
        assert self.function is not None, "there is an expression"
        values = decode_batch(batch, self.element)
        results: list[Any] = []
        try:
            try:
                # The expression has the values that outer variables had at lowering, as in other batches.
                results.extend(map(self.recognised.evaluate, values))
            except USER_ERRORS:
                self.function(values[len(results)])
                raise
        except USER_ERRORS as error:
            raise_call_error(self.step, error, self._element_text(batch, values, len(results)))
        if self.filters:
            return pa.array(list(map(bool, results)), pa.bool_())
        with field_errors(self.step.where):
            columns = encode_batch(results, self.result)
        if isinstance(self.expression, ColumnRecord):
            return columns
        # A tuple has a column for each part, and a key that is one is one column.
        return (
            columns.column(0)
            if self.result.single
            else pa.StructArray.from_arrays(columns.columns, names=columns.schema.names)
        )

    def _element_text(self, batch: pa.RecordBatch, values: Sequence[Any], place: int) -> str:
        """Describes an element; of columns that were not read nothing is known."""
        unread = (batch.schema.metadata or {}).get(UNREAD)
        if not unread:
            return f"element {shortened(values[place])}"
        names = [name for name in batch.schema.names if name not in unread.decode().split(",")]
        (row,) = batch.slice(place, 1).select(names).to_pylist()
        return f"element {self.element.name} with {', '.join(f'{name}={shortened(row[name])}' for name in names)}"


def columns_type(element_type: object) -> RecordType:
    """The type of elements as columns; declined where they have none."""
    try:
        return record_type(element_type)
    except InvalidArgumentError as error:
        raise DeclinedError(error.message) from error


def check_made(record_type: RecordType) -> RecordType:
    """Declines a type of elements whose objects have to be made, as only they know whether they are well-formed."""
    check_element(record_type)
    return check_constructor(record_type)


def check_parts_only(record_type: RecordType) -> None:
    """Declines elements that state on columns does not hold: it may hold values of theirs."""
    if record_type.root.python_type is KafkaRecord:
        raise DeclinedError("whole records of a topic are kept")


def check_constructor(record_type: RecordType) -> RecordType:
    """Declines a record class whose constructor does more than set the fields."""
    made_by = None if record_type.single else hook_of(record_type.root.python_type)
    if made_by is not None:
        raise DeclinedError(f"{record_type.root.python_type.__name__} has a {made_by}")
    return record_type


def _stamping(step: Step, node: TimestampsNode, element: RecordType, is_stamped: bool) -> RouteStep:
    """Decides how timestamps are taken from elements; ``is_stamped`` says whether they have some."""
    generator = type(node.strategy.create_generator())
    if node.strategy.ingestion_time or generator not in (BoundedOutOfOrdernessWatermarks, NoWatermarks):
        raise DeclinedError(f"the watermark generator of {step.id} looks at each element")
    if node.timestamp is None:
        if not is_stamped:
            raise DeclinedError(f"{step.id} takes the timestamps that elements have")
        return RouteStep(step, element, element, None)
    expression = _total(expression_of(node.timestamp, element, "the timestamp"), "the timestamp")
    if expression.value.kind not in (Kind.INT, Kind.DATETIME) or expression.value.nullable:
        raise DeclinedError(f"the timestamp is a {expression.value}")
    return RouteStep(step, element, element, expression, node.timestamp, _recognised(node.timestamp))


def _filtering(step: Step, node: FilterNode, element: RecordType, is_stamped: bool) -> RouteStep:
    """Decides how elements are filtered as columns."""
    expression = expression_of(node.function, element, "the filter")
    if expression.value.kind is not Kind.BOOL or expression.value.nullable:
        raise DeclinedError(f"the filter gives a {expression.value}")
    return RouteStep(step, element, element, expression, node.function, _recognised(node.function), filters=True)


def _making(step: Step, node: MapNode, element: RecordType, is_stamped: bool) -> RouteStep:
    """Decides how columns are made from those of elements."""
    expression = _made_by(node, element)
    result = expression.record_type if isinstance(expression, ColumnRecord) else single(expression.value)
    return RouteStep(step, element, result, expression, node.function, _recognised(node.function), makes=True)


# Any: each function takes nodes of its class.
ROUTE_STEPS: Final[Mapping[type[Node], Callable[[Step, Any, RecordType, bool], RouteStep]]] = {
    FilterNode: _filtering,
    MapNode: _making,
    TimestampsNode: _stamping,
}
"""What decides how a step takes elements of a type as columns, by the class of its node."""


def route_step(step: Step, element: RecordType, *, is_stamped: bool) -> RouteStep:
    """Decides how a step takes elements of a type as columns; ``is_stamped`` says whether they have timestamps."""
    return ROUTE_STEPS[type(step.node)](step, step.node, element, is_stamped)


def keying_step(step: Step, selector: Callable[[Any], Any], element: RecordType) -> RouteStep:
    """Decides how a step takes the keys of elements as columns."""
    key = expression_of(selector, element, "the key")
    if key.may_outgrow:
        raise DeclinedError(f"the key: {key.expression} may outgrow 64 bits")
    key_types = key.value.arguments if key.value.kind is Kind.TUPLE else (key.value,)
    if any(part.kind not in _KEYS for part in key_types):
        raise DeclinedError(f"the key is a {key.value}")
    return RouteStep(step, element, single(key.value), key, selector, _recognised(selector))


def _recognised(function: Callable[[Any], Any] | None) -> Expression | None:
    expression = None if function is None else recognise(function)
    return None if isinstance(expression, Opaque) else expression


def _made_by(node: MapNode, element: RecordType) -> ColumnExpression | ColumnRecord:
    """Returns the expression of what a map makes; declined where its results may be no elements in columns."""
    if node.port is not None:
        raise DeclinedError("elements of two streams come together one by one")
    record = recognise(node.function)
    if not isinstance(record, Record):
        return expression_of(node.function, element, "the map")
    nones = {} if record.target is tuple else _types_of_none(record.target)
    fields = [
        ColumnExpression(of, nones[name])
        if name in nones and of == Constant(None)
        else _over_columns(of, element, f"the field {name} of the map")
        for name, of in record.fields
    ]
    values = [field.value for field in fields]
    record_type = (
        tuple_of(values) if record.target is tuple else record_of(record.target, [n for n, _ in record.fields], values)
    )
    check_made(record_type)
    return ColumnRecord(record_type, tuple(fields))


def _types_of_none(target: type[Any]) -> dict[str, ValueType]:
    """The types of a record class's fields that may be None: where an expression gives None, they say its type."""
    record_type = columns_type(target)
    return {field.name: field.type for field in record_type.root.fields if field.type.nullable}


def _total(expression: ColumnExpression, what: str) -> ColumnExpression:
    """Declines an expression that is not computed on columns for every batch."""
    if not expression.is_total:
        raise DeclinedError(f"{what}: {expression.expression} is computed in Python for some elements")
    return expression


def record_of(target: Any, names: Sequence[str], values: Sequence[ValueType]) -> RecordType:
    """The type of records that a class makes of its fields, by name, or in their order if they have no names.

    The types of the fields are those of the values, not those of the annotations.
    """
    if not isinstance(target, type):
        raise DeclinedError(f"{getattr(target, '__name__', 'a function')} makes its results")
    record_type = columns_type(target)
    fields = record_type.root.fields
    by_name = dict(zip(names if names[0] else [field.name for field in fields], values, strict=False))
    if record_type.single or len(values) != len(fields) or by_name.keys() != {field.name for field in fields}:
        # A field that is left out has a default, which the class knows.
        raise DeclinedError(f"{target.__name__} makes its results")
    fields = tuple([replace(field, type=by_name[field.name]) for field in fields])
    return RecordType(None, record_type.name, replace(record_type.root, fields=fields), fields)


def tuple_of(values: Sequence[ValueType]) -> RecordType:
    """The type of tuples of values."""
    root = ValueType(Kind.TUPLE, tuple, arguments=tuple(values))
    columns = tuple([replace(part, name=part.column) for part in root.columns])
    return RecordType(None, str(root), root, columns)


def single(value: ValueType) -> RecordType:
    """The type of elements that are one value."""
    return RecordType(None, str(value), value, (RecordField("value", "value", value),))


def expression_of(selector: Any, element: RecordType, what: str) -> ColumnExpression:
    """The expression of columns that a function computes from elements; declined if it is no plain one."""
    expression = recognise(selector)
    if isinstance(expression, Opaque):
        raise DeclinedError(f"{what} {expression.reason}")
    return _over_columns(expression, element, what)


def total_expression(selector: Any, element: RecordType, what: str) -> ColumnExpression:
    """The same, of an expression that is computed on columns for every batch."""
    return _total(expression_of(selector, element, what), what)


def _over_columns(expression: Expression, element: RecordType, what: str) -> ColumnExpression:
    try:
        return column_expression(expression, element)
    except DeclinedError as reason:
        raise DeclinedError(f"{what}: {reason}") from None

"""Describes the parts of a plan on which its stored state depends, as plain data for the checkpoint.

Each keyed step is described: assigner, trigger, evictor, lateness, function, and the types of keys, elements and state.
Types that are unknown before the pipeline runs, such as the result of a lambda, are None. Plain functions are left out:
they may change, and their names mean nothing to the state.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.errors import InvalidArgumentError
from windrow.functions import AggregateFunction
from windrow.functions.plain import Applied, AppliedAll, WithoutKey
from windrow.plan import AggregateSpec, KeyByNode, KeyedProcessNode, ReduceSpec, Step, WindowNode
from windrow.plan.types import base_argument
from windrow.rolling import RollingReduce, RollingValue
from windrow_runtime.codecs.record_type import record_type, type_name
from windrow_runtime.codecs.value_type import Kind, RecordShape, ValueType
from windrow_runtime.operators.state.handles import declared_state, held_types
from windrow_runtime.operators.topology import Topology, key_step
from windrow_runtime.storage.stored_classes import Way, default_makers, way_of

# Any in this module: what JSON holds, and functions of every type.
Shape = dict[str, Any]
_MISSING = object()
_SPREADS = frozenset({"variance", "var_pop", "stddev", "stddev_pop"})  # they differ in their results alone


def state_ids(topology: Topology) -> dict[str, str]:
    """Returns the name under which each step's state is stored, by the id of the step.

    A step that has a name is found by it, wherever it stands. Others are counted among those of their kind, so steps
    without state and steps with a name may come and go around them.
    """
    found: dict[str, str] = {}
    for step in (*topology.keyed, *topology.timestamps):
        name = step.node.name
        numbered = (f"#{step.node.kind}-{number}" for number in count(1))
        renamed = (f"{name}#{number}" for number in count(2))
        candidates = numbered if name is None else chain([name], renamed)
        found[step.id] = next(candidate for candidate in candidates if candidate not in found.values())
    return found


def step_shape(topology: Topology, step: Step) -> Shape:
    """Describes the parts of a keyed step on which its state depends; the caller fills in its form on columns."""
    node = step.node
    keys = key_step(topology, step)
    shape: Shape = {
        "form": None,
        "kind": node.kind,
        "level": topology.levels[step.id],
        "key type": type_shape(keys.node.key_type)
        if keys is not None and isinstance(keys.node, KeyByNode)
        else "no keys",
        "record type": type_shape(node.inputs[0].element_type),
    }
    if isinstance(node, WindowNode):
        shape["assigner"] = _part(node.assigner)
        shape["trigger"] = _part(node.effective_trigger)
        # A reduced or aggregated window keeps all its elements with an evictor, and one value without.
        shape["evictor"] = None if node.evictor is None else "evicts"
        shape["allowed lateness"] = node.allowed_lateness or 0
        shape.update(_window_function(node))
    else:
        assert isinstance(node, KeyedProcessNode)
        shape["function"] = _process_function(node.function)
        shape["state"] = _descriptors(node.function)
    return shape


def _window_function(node: WindowNode) -> Shape:
    spec = node.function
    shape: Shape = {}
    if isinstance(spec, ReduceSpec):
        shape["function"] = "reduce"
    elif isinstance(spec, AggregateSpec):
        shape["function"] = f"aggregate {_class_name(type(spec.aggregate))}"
        shape["accumulator type"] = type_shape(base_argument(spec.aggregate, AggregateFunction, 1))
        if isinstance(spec.aggregate, DeclaredAggregate):
            shape["aggregates"] = _declared(spec.aggregate.declaration)
            # A sum of integers and one of time spans look alike where they are stored.
            results = _results(spec.aggregate, node.inputs[0].element_type)
            shape |= {f"result of aggregate {number}": kind for number, kind in enumerate(results, start=1)}
    else:
        shape["function"] = "process"
    inner: object = spec.process
    if isinstance(inner, WithoutKey):
        inner = inner.function
    if inner is not None:
        plain = isinstance(inner, (Applied, AppliedAll))
        shape["window function"] = None if plain else _class_name(type(inner))
    shape["state"] = {**_descriptors(inner), **_descriptors(node.effective_trigger, "trigger ")}
    return shape


def _declared(declaration: Declaration) -> str:
    """Describes declared aggregates without selectors and names of fields, on which their state does not depend."""
    if declaration.members:
        return f"combine({', '.join([_declared(member) for _, member in declaration.members])})"
    given = dict(declaration.parameters)
    kind = "variance" if declaration.kind in _SPREADS else declaration.kind
    if "q" in given:
        # One sketch answers for all quantiles.
        kind = "quantiles"
        del given["q"]
    texts = [
        f"{name}={_class_name(type(value)) if isinstance(value, AggregateFunction) else repr(value)}"
        for name, value in given.items()
    ]
    return f"{kind}({', '.join(texts)})"


def _results(aggregate: AggregateFunction[Any, Any, Any], element: object | None) -> Iterator[str | None]:
    """Yields the types of the results of an aggregate, or of those that it combines; None: not known."""
    if isinstance(aggregate, Combined):
        for _, member in aggregate.members:
            yield from _results(member, element)
        return
    known: object | None = None
    if isinstance(aggregate, DeclaredAggregate):
        # As behind an evictor: stored state does not depend on whether a result may be None.
        known = aggregate.result_type(element, may_be_empty=True)
    yield None if known is None else type_name(known)


def _process_function(function: object) -> str:
    if isinstance(function, RollingReduce) and function.describe().startswith("rolling reduce "):
        return "rolling reduce"
    if isinstance(function, (RollingReduce, RollingValue)):
        return function.describe()
    return _class_name(type(function))


def _class_name(kind: type) -> str:
    # The name lacks the module: a class may move, and the main program has another module name when imported.
    return kind.__qualname__.rpartition("<locals>.")[2]


def _part(part: Any) -> Shape:
    """Describes an assigner or a trigger by its class and the arguments of its constructor."""
    try:
        names = list(inspect.signature(type(part).__init__).parameters)[1:]
    except (TypeError, ValueError):
        names = []
    values = {name: getattr(part, name, getattr(part, f"_{name}", _MISSING)) for name in names}
    return {
        "class": _class_name(type(part)),
        "text": part.describe(),
        "parameters": {
            name: _value(value) for name, value in values.items() if value is not _MISSING and not callable(value)
        },
    }


def _value(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # JSON has no number for it, and NaN is not equal to itself
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if callable(getattr(value, "describe", None)):
        return _part(value)
    # The repr of another object may hold its address in memory, which differs in each run.
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def _descriptors(owner: object, prefix: str = "") -> Shape:
    return {
        prefix + descriptor.name: {
            "kind": type(descriptor).__name__.removesuffix("StateDescriptor").lower(),
            "types": list(map(type_shape, held_types(descriptor))),
        }
        for descriptor in declared_state(owner)
    }


def type_shape(kind: object) -> object:
    """Describes a type as plain data, a record with its fields; None if the type is unknown."""
    if kind is None:
        return None
    try:
        return _value_shape(record_type(kind).root)
    except InvalidArgumentError:
        # No columns can hold such a type, so its name stands for it.
        return _class_name(kind) if isinstance(kind, type) else type_name(kind)


def _value_shape(value: ValueType) -> object:
    optional = " | None" if value.nullable else ""
    if value.kind is Kind.RECORD:
        is_dict = value.shape is RecordShape.TYPED_DICT
        name = f"{_class_name(value.python_type)}{optional}"
        defaults = default_makers(value.python_type)
        return {
            "class": name,
            "text": name,
            # A class is stored field by field, or as a whole by its attributes; then a new field gets no default.
            "by field": is_dict or way_of(value.python_type) is Way.FIELDS,
            "fields": {
                field.name: {
                    "type": _value_shape(field.type),
                    "default": field.absent_allowed or field.name in defaults,
                }
                for field in value.fields
            },
        }
    if value.arguments and value.kind is not Kind.ENUM:
        return {
            "class": f"{value.kind.value}{optional}",
            "text": str(value),
            "parts": [_value_shape(part) for part in value.arguments],
        }
    return str(value)

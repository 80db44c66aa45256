"""Describes the parts of a plan on which its stored state depends, as plain data, and finds changes of them.

Each keyed step is described: assigner, trigger, evictor, lateness, function, and the types of keys, elements and state.
Types that are unknown before the pipeline runs, such as the result of a lambda, are None. Plain functions are left out:
they may change, and the state does not depend on their names.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.calls.attributes import attribute_of
from windrow.errors import InvalidArgumentError
from windrow.facts.reached import reached_state
from windrow.functions import AggregateFunction, TimeDomain
from windrow.functions.marked import CoGroup, JoinPairs
from windrow.functions.plain import Applied, AppliedAll
from windrow.functions.wrapper import unwrapped
from windrow.panes import AccumulationMode
from windrow.plan import AggregateSpec, ReduceSpec, Step, WindowNode
from windrow.plan.changing import takes_changes
from windrow.plan.keys import key_type
from windrow.plan.own_parts import declared_state, held_types
from windrow.plan.types import base_argument
from windrow.rolling import RollingReduce, RollingValue
from windrow.state import StateDescriptor, StateTtlConfig
from windrow.time import duration_text
from windrow.triggers.trigger import with_parts
from windrow_runtime.codecs.record_type import record_type, type_name
from windrow_runtime.codecs.value_type import Kind, RecordShape, ValueType
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.storage.stored_classes import StoredForm, default_makers, stored_form_of

# Any in this module: what JSON holds, and functions of every type.
Shape = dict[str, Any]
_MISSING = object()
_TYPES = ("key type", "record type", "accumulator type")
_FROM_CODE = "key type from code"  # whether the selector's code says the type of the keys, and not an annotation
_NO_KEYS = "no keys"
_LIVES = "times to live"
_ENDLESS = "without end"
_NOT_COUNTED = "not counted"
_UNSAID = {"panes": _NOT_COUNTED, "elements": "records"}  # the defaults, of which nothing is stored
_HASHED = ("dict", "set", "frozenset")
_SPREADS = frozenset({"variance", "var_pop", "stddev", "stddev_pop"})  # all of them store the same state


def step_shape(plan: PhysicalPlan, step: Step) -> Shape:
    """Describes the parts of a keyed step on which its state depends; the caller fills in its form on columns."""
    node = step.node
    keys = plan.topology.key_by(step)
    type_form = _NO_KEYS if keys is None else type_shape(key_type(keys))
    shape: Shape = {
        "form": None,
        "kind": node.kind,
        "level": plan.topology.levels[step.id],
        "key type": type_form,
        "record type": type_shape(node.inputs[0].element_type),
    }
    if keys is not None and keys.key_type is None and type_form is not None:
        shape[_FROM_CODE] = True
    if node.settings_of_state is not None:
        shape["settings"] = node.settings_of_state
    windows, function = node.windows, node.process_function
    if windows is not None:
        shape["assigner"] = _part(windows.assigner)
        shape["trigger"] = _part(windows.effective_trigger)
        # A reduced or aggregated window keeps all its elements with an evictor, and one value without.
        shape["evictor"] = None if windows.evictor is None else "evicts"
        shape["allowed lateness"] = windows.lateness
        panes = _panes(windows)
        if panes is not None:
            shape["panes"] = panes
        if takes_changes(node):
            shape["elements"] = "changes"
        shape.update(_window_function(windows))
    elif function is not None:
        inner = unwrapped(function)
        shape["function"] = _process_function(inner)
        shape["state"] = _descriptors(declared_state(inner))
        lives = {name: _life_text(descriptor.ttl) for name, descriptor in reached_state(inner).items()}
        if any(life != _ENDLESS for life in lives.values()):
            shape[_LIVES] = lives
        for each in node.inputs:
            shape["state"] |= _descriptors(each.broadcast_state, "broadcast ")
    return shape


def _panes(node: WindowNode) -> str | None:
    """Describes the accumulation mode of a window that fires several panes; None: panes are not counted."""
    if node.spec.fires_panes:
        return ", ".join(node.panes.describe()) or AccumulationMode.ACCUMULATING.value
    if node.panes.mode is AccumulationMode.DISCARDING and not node.spec.fires_once:
        return f"{node.panes.mode.value}, {_NOT_COUNTED}"
    return None


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
            # Result types are compared as well, since sums of integers and of time spans store the same state.
            results = _results(spec.aggregate, node.inputs[0].element_type)
            shape |= {f"result of aggregate {number}": kind for number, kind in enumerate(results, start=1)}
    else:
        shape["function"] = "process"
    inner: object = spec.process
    inner = unwrapped(inner)
    if inner is not None:
        plain = isinstance(inner, (Applied, AppliedAll)) or isinstance(spec.process, (CoGroup, JoinPairs))
        shape["window function"] = None if plain else _class_name(type(inner))
    shape["state"] = _descriptors(declared_state(inner))
    for number, part in enumerate(with_parts(node.effective_trigger)):
        shape["state"] |= _descriptors(declared_state(part), f"trigger {number} " if number else "trigger ")
    return shape


def _declared(declaration: Declaration) -> str:
    """Describes declared aggregates, but not selectors and names of fields, on which their state does not depend."""
    if declaration.members:
        return f"combine({', '.join([_declared(member) for _, member in declaration.members])})"
    parameters = dict(declaration.parameters)
    kind = "variance" if declaration.kind in _SPREADS else declaration.kind
    if "q" in parameters:
        # One sketch answers for all quantiles.
        kind = "quantiles"
        del parameters["q"]
    texts = [
        f"{name}={_class_name(type(value)) if isinstance(value, AggregateFunction) else repr(value)}"
        for name, value in parameters.items()
    ]
    return f"{kind}({', '.join(texts)})"


def places_of_aggregates(before: str, aggregate: Combined[Any, Any, Any, Any]) -> tuple[int | None, ...] | None:
    """Finds the aggregates of a combination among those that a shape describes.

    Args:
        before: The description of the former combination.
        aggregate: The combination as it is now, whose aggregates have the order that they had.

    Returns:
        The place of each aggregate among the former ones, None for one that is new; None if a former one is gone, or an
        aggregate describes itself to nobody.
    """
    texts = [_declared(member.declaration) for _, member in aggregate.members if isinstance(member, DeclaredAggregate)]
    if len(texts) < len(aggregate.members):
        return None

    def found(first: int, rest: str, taken: int) -> tuple[int | None, ...] | None:
        if first == len(texts):
            return None if rest else ()
        text = texts[first]
        if rest == text or rest.startswith(f"{text}, "):
            others = found(first + 1, rest[len(text) :].removeprefix(", "), taken + 1)
            if others is not None:
                return (taken, *others)
        others = found(first + 1, rest, taken)
        return None if others is None else (None, *others)

    return found(0, before.removeprefix("combine(").removesuffix(")"), 0)


def _results(aggregate: AggregateFunction[Any, Any, Any], element: object | None) -> Iterator[str | None]:
    """Yields the types of the results of an aggregate, or of those that it combines; None: not known."""
    if isinstance(aggregate, Combined):
        for _, member in aggregate.members:
            yield from _results(member, element)
        return
    result_type: object | None = None
    if isinstance(aggregate, DeclaredAggregate):
        # Stored state does not depend on whether a result may be None, so it is always assumed.
        result_type = aggregate.result_type(element, may_be_empty=True)
    yield None if result_type is None else type_name(result_type)


def _process_function(function: object) -> str:
    if isinstance(function, RollingReduce) and function.describe().startswith("rolling reduce "):
        return "rolling reduce"
    if isinstance(function, (RollingReduce, RollingValue)):
        return function.describe()
    return _class_name(type(function))


def _class_name(class_: type) -> str:
    # The name lacks the module: a class may move, and the main program has another module name when imported.
    return class_.__qualname__.rpartition("<locals>.")[2]


def _part(part: Any) -> Shape:
    """Describes an assigner or a trigger by its class and the arguments of its constructor."""
    try:
        names = list(inspect.signature(type(part).__init__).parameters)[1:]
    except (TypeError, ValueError):
        names = []
    values = {name: attribute_of(part, name, attribute_of(part, f"_{name}", _MISSING)) for name in names}
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
    if isinstance(value, (tuple, list)):
        return list(map(_value, value))
    if callable(attribute_of(value, "describe")):
        return _part(value)
    # The repr of another object may hold its address in memory, which differs in each run.
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def _descriptors(descriptors: Iterable[StateDescriptor], prefix: str = "") -> Shape:
    return {
        prefix + descriptor.name: {
            "kind": type(descriptor).__name__.removesuffix("StateDescriptor").lower(),
            "types": list(map(type_shape, held_types(descriptor))),
        }
        for descriptor in descriptors
    }


def _life_text(ttl: StateTtlConfig | None) -> str:
    if ttl is None:
        return _ENDLESS
    domain = "the clock" if ttl.time_domain is TimeDomain.PROCESSING_TIME else "event time"
    return f"{duration_text(ttl.millis)} of {domain}{', renewed on read' if ttl.refresh_on_read else ''}"


def type_shape(type_form: object) -> object:
    """Describes a type as plain data, a record with its fields; None if the type is unknown."""
    if type_form is None:
        return None
    try:
        return _value_shape(record_type(type_form).root)
    except InvalidArgumentError:
        # No columns can hold such a type, so its name stands for it.
        return _class_name(type_form) if isinstance(type_form, type) else type_name(type_form)


def _value_shape(value: ValueType) -> object:
    optional = " | None" if value.nullable else ""
    if value.kind is Kind.RECORD:
        is_dict = value.shape is RecordShape.TYPED_DICT
        name = f"{_class_name(value.python_type)}{optional}"
        defaults = default_makers(value.python_type)
        return {
            "class": name,
            "text": name,
            # A class is stored field by field, or by the attributes of its objects; then a new field gets no default.
            "by field": is_dict or stored_form_of(value.python_type) is StoredForm.FIELDS,
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


def step_changes(before: Shape, now: Shape, *, same_key: bool = False) -> Iterator[str]:
    """Yields the changes that keep a step from reading the state that it stored as ``before``.

    A field that is new in a record and has a default is no such change: stored records get the default. Nor is state
    that is new or gone in a function. Unknown parts (None) are not compared. ``same_key`` says that the selector of the
    key computes what it did: then it does not count if an annotation says less or more than its code.
    """
    for part in dict.fromkeys((*before, *now)):
        old, new = before.get(part), now.get(part)
        if part == "key type":
            if (old == _NO_KEYS) != (new == _NO_KEYS) and None in (old, new):
                yield _change(part, _text(old or "not known"), _text(new or "not known"))
            elif not same_key or bool(before.get(_FROM_CODE)) == bool(now.get(_FROM_CODE)):
                yield from _type_changes(part, old, new, grows=False, is_hashed=True)
        elif part in (_FROM_CODE, _LIVES):
            pass
        elif part in _TYPES:
            yield from _type_changes(part, old, new)
        elif part == "state":
            yield from _state_changes(old or {}, new or {})
        elif part in _UNSAID:
            if old != new:
                yield _change(part, old or _UNSAID[part], new or _UNSAID[part])
        elif part == "evictor":
            if old != new:
                yield _change(part, "none" if old is None else "one", "none" if new is None else "one")
        elif old is not None and new is not None and _compared(old) != _compared(new):
            shown = duration_text if part == "allowed lateness" else _text
            yield _change(part, shown(old), shown(new))


def harmless_changes(before: Shape, now: Shape) -> Iterator[str]:
    """Yields the changes of a step that do not keep it from reading its stored state, and their effects."""
    for part in _TYPES:
        yield from _new_fields(part, before.get(part), now.get(part))
    old_state, new_state = before.get("state") or {}, now.get("state") or {}
    for name, new in new_state.items():
        if name in old_state:
            for old_type, new_type in zip(old_state[name]["types"], new["types"], strict=False):
                yield from _new_fields(f"state {name!r}", old_type, new_type)
        else:
            yield f"state {name!r} is new, and begins empty"
    for name in old_state:
        if name not in new_state:
            yield f"state {name!r} is gone: what is stored of it stays, and nothing reads it"
    old_lives, lives = before.get(_LIVES) or {}, now.get(_LIVES) or {}
    for name in sorted(old_lives.keys() | lives.keys()):
        old, new = old_lives.get(name, _ENDLESS), lives.get(name, _ENDLESS)
        is_gone = name in old_state and name not in new_state
        if old != new and not is_gone and (name in old_state or name in old_lives):
            yield f"state {name!r}: its time to live {_was(old, new)}, which counts for stored values as well"


def _new_fields(path: str, before: Any, now: Any) -> Iterator[str]:
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return
    for old, new in zip(before.get("parts", ()), now.get("parts", ()), strict=False):
        yield from _new_fields(path, old, new)
    fields = before.get("fields", {})
    for name, field in now.get("fields", {}).items():
        shown = f"{path}: {now['class'].removesuffix(' | None')}.{name}" if ": " not in path else f"{path}.{name}"
        if name in fields:
            yield from _new_fields(shown, fields[name]["type"], field["type"])
        else:
            yield f"{shown} is new: stored records get its default"


def merged(before: Shape, now: Shape) -> Shape:
    """Returns the shape to store for a step whose changes do no harm: the new one, with unknown parts from before."""
    shape = {part: before.get(part) if value is None else value for part, value in now.items()} | {
        "state": {**(before.get("state") or {}), **(now.get("state") or {})}
    }
    if now["key type"] is None and _FROM_CODE in before:
        shape[_FROM_CODE] = before[_FROM_CODE]
    return shape


def _compared(value: Any) -> Any:
    """Returns the description of a part without its text for people, which is not compared."""
    if isinstance(value, Mapping):
        return {key: _compared(inner) for key, inner in value.items() if key != "text"}
    if isinstance(value, list):
        return list(map(_compared, value))
    return value


def _text(value: Any) -> str:
    return str(value["text"]) if isinstance(value, Mapping) else str(value)


def _change(part: str, old: str, new: str) -> str:
    return f"{part} {_was(old, new)}"


def _was(old: str, new: str) -> str:
    return f"was {old} and is {new}"


def _state_changes(before: Shape, now: Shape) -> Iterator[str]:
    for name, old in before.items():
        new: Any = now.get(name, old)
        if old["kind"] != new["kind"]:
            yield _change(f"state {name!r}", f"{old['kind']} state", f"{new['kind']} state")
        elif len(old["types"]) == 2:
            yield from _type_changes(f"key of state {name!r}", old["types"][0], new["types"][0], grows=False)
            yield from _type_changes(f"value of state {name!r}", old["types"][1], new["types"][1])
        else:
            yield from _type_changes(f"state {name!r}", old["types"][0], new["types"][0])


def _type_changes(path: str, before: Any, now: Any, *, grows: bool = True, is_hashed: bool = False) -> Iterator[str]:
    """Yields the changes that keep values of type ``before`` from being read as ``now``; ``path`` names the type.

    ``grows`` says whether a record may have new fields with a default. A key may not: it would be another key.
    ``is_hashed`` says whether the hash of a value, of which the order of its fields is a part, finds what is stored.
    """
    # The order of fields does not count for what is equal.
    if before is None or now is None or (before == now and not (is_hashed and isinstance(now, Mapping))):
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping) and before["class"] == now["class"]:
        if "fields" in before and "fields" in now:
            yield from _field_changes(path, before, now, grows=grows, is_hashed=is_hashed)
            return
        parts, others = before.get("parts", ()), now.get("parts", ())
        if len(parts) == len(others) > 0:
            for number, (old, new) in enumerate(zip(parts, others, strict=True)):
                # The first part of a dict is its key.
                is_key = number == 0 and before["class"].startswith(_HASHED)
                yield from _type_changes(f"{path}[{number}]", old, new, grows=grows and not is_key, is_hashed=is_hashed)
            return
    yield _change(path, _text(before), _text(now))


def _field_changes(path: str, before: Any, now: Any, *, grows: bool, is_hashed: bool) -> Iterator[str]:
    # A class whose constructor does more than set its fields is stored by the attributes of its objects.
    name = path if ": " in path else f"{path}: {before['class'].removesuffix(' | None')}"
    for field, old in before["fields"].items():
        new = now["fields"].get(field)
        if new is None:
            yield f"{name}.{field} was {_text(old['type'])} and is gone"
        else:
            yield from _type_changes(f"{name}.{field}", old["type"], new["type"], grows=grows, is_hashed=is_hashed)
    if is_hashed and before["fields"].keys() == now["fields"].keys() and [*before["fields"]] != [*now["fields"]]:
        yield f"{name} has its fields in another order, and keys with another order are other keys"
    if before["by field"] and not now["by field"]:
        yield f"{name} was stored by field, and now its constructor does more than set them"
    for field, new in now["fields"].items():
        if field in before["fields"]:
            continue
        if not before["by field"]:
            yield f"{name}.{field} is new, and the class is stored as a whole"
        elif not grows:
            yield f"{name}.{field} is new, and keys with another field are other keys"
        elif not new["default"]:
            yield f"{name}.{field} is new and has no default, and no factory such as list"

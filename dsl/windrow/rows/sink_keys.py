"""Finds the fields that tell the rows of a changing stream apart, which the key of its sink has to have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from windrow.aggregates.facts import FilledWindow, WindowFact
from windrow.expressions.node import Expression
from windrow.expressions.tracing import Opaque, recognise
from windrow.expressions.tree import Element, Field, Item, Record
from windrow.plan.base_node import Node
from windrow.plan.keyed_nodes import WindowNode
from windrow.plan.steps import StepFault


def row_key_faults(node: Node) -> Iterator[StepFault]:
    """Sinks that would delete the rows of others, since several rows of the stream share the key of the sink."""
    sink = node.writes
    if sink is None or not sink.takes_changes:
        return
    origin, sink_key = _origin(node.inputs[0]), set(sink.deletes_by)
    missing = [names for names in _telling_apart(origin, sink_key) if not names & sink_key] if origin else []
    if origin is None or not missing:
        return
    if frozenset() in missing:
        assert origin.windows is not None, "the fields of tables are known or not"
        bound = "window_end" if "window_end" in origin.windows.spec.distinct_bounds else "window_start"
        yield (
            f"{sink.describe()} would delete rows of others: nothing in the results tells the windows of a key apart",
            f"agg.{bound}() in the result, and its field in the key of the sink",
        )
        return
    names = " and ".join([" or ".join(sorted(each)) for each in missing])
    key = ", ".join(map(repr, (*sink.deletes_by, *map(max, missing))))
    other = "" if origin.windows is not None else f"; or a table by {' and '.join(sink.deletes_by)}"
    yield (
        f"{sink.describe()} would delete rows of others: {origin.begins_changes} tell rows apart by {names} too",
        f"key=({key}){other}",
    )


def _origin(node: Node) -> Node | None:
    """Returns the step where the changes of a stream begin; None where its rows may have other fields since."""
    while node.begins_changes is None:
        if len(node.inputs) != 1 or not (node.passes_all or node.keeps_elements):
            return None
        (node,) = node.inputs
    return node


def _telling_apart(origin: Node, sink_key: set[str]) -> list[frozenset[str]]:
    """Returns sets of fields, of each of which one is needed to tell rows apart; none where they are not known."""
    if origin.windows is not None:
        return _of_windows(origin.windows, sink_key)
    return [] if origin.key_of_rows is None else _of_table(origin.key_of_rows, origin.element_type)


def _of_windows(windows: WindowNode, sink_key: set[str]) -> list[frozenset[str]]:
    """Returns the fields for the key, and for the bounds, of results that have them.

    An empty set stands for bounds that the results lack, where nothing in the key of the sink can stand for them.
    """
    process = windows.function.process
    if not isinstance(process, FilledWindow) or isinstance(process.combined, WindowFact) or process.target is None:
        return []
    named = [
        (name, fact.kind) for name, fact in process.combined.fields_of(process.target) if isinstance(fact, WindowFact)
    ]
    keys = frozenset(name for name, kind in named if kind == "key")
    bounds = frozenset(name for name, kind in named if kind in windows.spec.distinct_bounds)
    telling = [keys] if keys else []
    if windows.spec.is_global:
        return telling
    # An aggregate, such as the number of a day, may tell windows apart as well.
    return [*telling, bounds] if bounds or sink_key <= {name for name, _ in named} else telling


# Any: rows of every type.
def _of_table(key: Callable[[Any], Any], row_type: object | None) -> list[frozenset[str]]:
    """Returns the fields of which the key of a table is made."""
    expression = recognise(key)
    parts = [of for _, of in expression.fields] if isinstance(expression, Record) else [expression]
    names = [_field_of(part, row_type) for part in parts]
    return [frozenset([name]) for name in names if name is not None] if None not in names else []


def _field_of(expression: Expression | Opaque, row_type: object | None) -> str | None:
    """Returns the name of the field that an expression is; None for others."""
    if isinstance(expression, Field) and isinstance(expression.of, Element):
        return expression.name
    if not isinstance(expression, Item) or not isinstance(expression.of, Element):
        return None
    names: tuple[str, ...] = getattr(row_type, "_fields", ())
    if isinstance(expression.key, str):
        return expression.key
    return names[expression.key] if 0 <= expression.key < len(names) else None

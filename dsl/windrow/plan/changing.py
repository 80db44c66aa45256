"""Finds the windows upstream that withdraw results of a stream, or whose panes repeat elements.

Withdrawals go on downstream of windows that retract, up to where changes become records.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.plan.base_node import Node
from windrow.plan.keyed_nodes import AggregateSpec, WindowNode
from windrow.rolling import RollingReduce, RollingValue

_NOT_ADDED_UP: Final = frozenset(
    [
        *("min", "max", "min_by", "max_by", "first", "last"),
        *("collect_set", "count_distinct", "approx_count_distinct"),
        *("key", "window_start", "window_end"),
    ]
)
"""The kinds of declared aggregates whose result is the same where an element, or a lower or older result, comes too."""


def carries_changes(node: Node) -> bool:
    """Returns whether the output of a step holds withdrawals beside results."""
    return any(step.begins_changes is not None for step in _origins(node, through_changes=False))


def takes_changes(node: Node) -> bool:
    """Returns whether withdrawals reach a step."""
    return any(map(carries_changes, node.inputs))


def origin_of_changes(node: Node) -> str:
    """Returns a few words for the step upstream from which a step gets withdrawals."""
    origins = (step.begins_changes for each in node.inputs for step in _origins(each, through_changes=False))
    return next(origin for origin in origins if origin is not None)


def repeating_windows(node: Node) -> list[WindowNode]:
    """Returns the windows upstream whose panes hold elements of earlier panes, which count again in a step.

    None are upstream of a step that does not add elements up. Windows with a trigger of a user's are left out: it may
    purge.
    """
    return list(dict.fromkeys(chain(*map(repeating_origins, node.inputs)))) if _adds_up(node) else []


def repeating_origins(node: Node) -> list[WindowNode]:
    """Returns the windows whose results the output of a step has, and whose panes hold elements of earlier panes."""
    windows = [step.windows for step in _origins(node, through_changes=True)]
    return [each for each in windows if each is not None and each.spec.repeats_elements]


def _origins(node: Node, *, through_changes: bool) -> Iterator[Node]:
    """Yields the windows whose results a stream has, and other steps where its changes begin.

    It looks through steps without state, and those that end changes or not.
    """
    waiting, seen = [node], {id(node)}
    while waiting:
        upstream = waiting.pop()
        if upstream.windows is not None or (upstream.begins_changes is not None and not through_changes):
            yield upstream
        elif through_changes or not (upstream.ends_changes or upstream.is_keyed):
            # Side outputs of a window function are neither withdrawals nor withdrawn.
            further = [each for each in upstream.made_of if id(each) not in seen]
            seen.update(map(id, further))
            waiting += further


def _adds_up(node: Node) -> bool:
    """Returns whether an element that comes twice counts twice in the result of a step."""
    if node.windows is not None:
        spec = node.windows.function
        aggregate = spec.aggregate if isinstance(spec, AggregateSpec) else None
        return not isinstance(aggregate, DeclaredAggregate) or _sums(aggregate.declaration)
    function = node.process_function
    return isinstance(function, (RollingReduce, RollingValue)) and function.describe().startswith(
        ("rolling sum", "rolling reduce")
    )


def _sums(declaration: Declaration) -> bool:
    if declaration.members:
        return any(_sums(member) for _, member in declaration.members)
    return declaration.kind not in _NOT_ADDED_UP

"""Walks over the nodes of a plan, and makes plans like another one from changed nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from windrow.plan.nodes import BroadcastProcessNode, Node, SinkNode, UnionNode
from windrow.plan.steps import Step

__all__ = ["map_steps", "walk"]


def walk(roots: Sequence[SinkNode]) -> Iterator[Node]:
    """All nodes that lead to ``roots``, each once, inputs before what reads them."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((source, False) for source in reversed(node.inputs) if id(source) not in seen)


def map_steps(steps: Sequence[Step], change: Callable[[Node], Node]) -> list[Step]:
    """The steps of a plan with changed nodes, each of which reads from the changed nodes of its inputs.

    Args:
        steps: Inputs before what reads them.
        change: Called once for each node, after its inputs were replaced.
    """
    changed: dict[int, Node] = {}
    for step in steps:
        changed[id(step.node)] = change(_relinked(step.node, changed))
    return [replace(step, node=changed[id(step.node)]) for step in steps]


def _relinked(node: Node, changed: dict[int, Node]) -> Node:
    if isinstance(node, UnionNode):
        return replace(node, streams=tuple(changed[id(stream)] for stream in node.streams))
    if isinstance(node, BroadcastProcessNode):
        # Any: a change gives a node of the same class.
        relinked: dict[str, Any] = {"input": changed[id(node.input)], "rules": changed[id(node.rules)]}
        return replace(node, **relinked)
    if node.inputs:
        # Every other node with inputs has the one field. Any: replace() checks fields of the one class alone.
        changes: dict[str, Any] = {"input": changed[id(node.inputs[0])]}
        return replace(node, **changes)
    return node

"""Walks over the nodes of a plan, and makes plans like another one from changed nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from windrow.plan.base_node import Node
from windrow.plan.nodes import SinkNode
from windrow.plan.steps import Step


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


def upstream_of(node: Node) -> Iterator[Node]:
    """Yields the nodes from which a node gets elements, through any number of others, each once."""
    seen: set[int] = set()
    waiting = [*node.inputs]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += each.inputs


def map_steps(steps: Sequence[Step], change: Callable[[Node], Node]) -> list[Step]:
    """The steps of a plan with changed nodes, each of which reads from the changed nodes of its inputs.

    Args:
        steps: Inputs before what reads them.
        change: Called once for each node, after its inputs were replaced.
    """
    changed: dict[int, Node] = {}
    for step in steps:
        node = step.node
        changed[id(node)] = change(node.with_inputs([changed[id(each)] for each in node.inputs]))
    return [replace(step, node=changed[id(step.node)]) for step in steps]

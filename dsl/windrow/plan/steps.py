"""The steps of a pipeline: its nodes in their order, with their ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windrow.plan.nodes import Node, SinkNode

__all__ = ["Step", "number_steps", "walk"]


@dataclass(frozen=True, slots=True, repr=False)
class Step:
    """A node in its place in a pipeline.

    Attributes:
        id: The dotted id that errors and ``explain()`` show: pipeline, number, name.
        index: The number, from 1, inputs before what reads them.
        node: The node.
        inputs: The ids of the steps that it reads from.
    """

    id: str
    index: int
    node: Node
    inputs: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Step({self.where})"

    @property
    def where(self) -> str:
        """The id with the line of the user's program."""
        return self.id if self.node.location is None else f"{self.id}, {self.node.location}"


def walk(roots: list[SinkNode]) -> Iterator[Node]:
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


def number_steps(pipeline: str, roots: list[SinkNode]) -> Iterator[Step]:
    """The steps of a pipeline, numbered from 1 in the order of :func:`walk`."""
    ids: dict[int, str] = {}
    for index, node in enumerate(walk(roots), start=1):
        ids[id(node)] = f"{pipeline}.{index}.{node.name or node.kind}"
        yield Step(ids[id(node)], index, node, tuple(ids[id(source)] for source in node.inputs))

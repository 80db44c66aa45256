"""The steps of a pipeline: its nodes in their order, with their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windrow.plan.nodes import Node

__all__ = ["Step", "number_steps"]


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


def number_steps(pipeline: str, nodes: Iterable[Node]) -> Iterator[Step]:
    """The steps of a pipeline, numbered from 1.

    Args:
        pipeline: The name of the pipeline, with which ids begin.
        nodes: Inputs before what reads them, as :func:`windrow.plan.walk.walk` gives them.
    """
    ids: dict[int, str] = {}
    for index, node in enumerate(nodes, start=1):
        ids[id(node)] = f"{pipeline}.{index}.{node.name or node.kind}"
        yield Step(ids[id(node)], index, node, tuple(ids[id(source)] for source in node.inputs))

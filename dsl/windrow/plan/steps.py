"""Numbers the nodes of a pipeline in their order, which become steps with ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import TypeAlias

from windrow.plan.base_node import Node
from windrow.plan.location import Scope

StepFault: TypeAlias = tuple[str, str]
"""What is wrong with a step, and how to mend it: a :class:`~windrow.errors.Fault` without its place."""


@dataclass(frozen=True, slots=True, repr=False)
class Step:
    """A node in its place in a pipeline.

    Attributes:
        id: The dotted id that errors and ``explain()`` show: pipeline, number, name.
        index: The number, from 1, inputs before what reads them.
        node: The node.
        inputs: The ids of the steps that it reads from.
        scope: What the scopes that it was made in put before its name: ``outer/inner/``; empty without a scope.
    """

    id: str
    index: int
    node: Node
    inputs: tuple[str, ...]
    scope: str = ""

    def __repr__(self) -> str:
        return f"Step({self.where})"

    @property
    def name(self) -> str | None:
        """The name that the user gave it, after those of its scopes; None if it has none."""
        return None if self.node.name is None else self.scope + self.node.name

    @property
    def title(self) -> str:
        """The number of the step, the kind in its id, and the name that the user gave it."""
        kind = self.node.kind if self.name else f"{self.scope}{self.node.kind}"
        return " ".join(f"{self.index} {kind} {self.name or ''}".split())

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
    scopes = _ScopePaths()
    for index, node in enumerate(nodes, start=1):
        scope = scopes.path_of(node.scope)
        ids[id(node)] = f"{pipeline}.{index}.{scope}{node.name or node.kind}"
        yield Step(ids[id(node)], index, node, tuple(ids[id(source)] for source in node.inputs), scope)


class _ScopePaths:
    """What stands before the names of steps, by their scopes: ``outer/inner/``.

    Of several uses of one function in a scope the second has ``#2`` in its path, and so on, in the order of the plan.
    """

    def __init__(self) -> None:
        self._paths: dict[Scope, str] = {}

    def path_of(self, scope: Scope | None) -> str:
        """The path of a scope; empty without one."""
        if scope is None:
            return ""
        if scope not in self._paths:
            before = self.path_of(scope.parent)
            paths = chain([f"{before}{scope.name}/"], (f"{before}{scope.name}#{number}/" for number in count(2)))
            self._paths[scope] = next(path for path in paths if path not in self._paths.values())
        return self._paths[scope]

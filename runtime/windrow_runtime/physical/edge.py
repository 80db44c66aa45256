"""Edges of a physical plan: how elements get from a source, or a keyed step, to the next keyed step, or to a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from windrow_runtime.operators.errors import DeclinedError

if TYPE_CHECKING:
    from windrow_runtime.columnar.forms.route import Route

F_co = TypeVar("F_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Objects:
    """Says that a step runs on Python objects, or gets them, and why it does not take columns."""

    reason: str

    def with_steps(self, by_id: object) -> Objects:
        """Returns the same; forms on columns have routes, which they take through other steps."""
        return self


def decided(decide: Callable[[], T]) -> T | Objects:
    """Returns a decision for columns, or the reason why they are declined."""
    try:
        return decide()
    except DeclinedError as declined:
        return Objects(str(declined))


@dataclass(frozen=True, slots=True)
class Edge(Generic[F_co]):
    """Leads elements as columns to a keyed step or a sink, from a source or a keyed step."""

    number: int  # names the consumer in rows of the exchange, among keyed steps or among sinks
    form: F_co  # how the consumer takes columns
    route: Route | None = None  # the steps in between; None: there are none

"""Defines the interface of kernels, and what they have in common."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from windrow_runtime.columnar.array_types import Array, ArrowType
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["Decode", "Kernel", "Selector"]

Selector: TypeAlias = Callable[[Any], Any]  # selectors of elements of every type
"""What an aggregate takes from an element."""

Decode: TypeAlias = Callable[[Array], list[Any]]  # values of every type
"""Makes the Python values of an array that an aggregate would have got from its selectors."""


class Kernel(ABC):
    """A declared aggregate that works on columns.

    It gives what the aggregate gives row by row; floats but for the last bits. Arrays are plain, never chunked; they
    may have nulls, begin at an offset, or be empty.

    Attributes:
        inputs: The selectors whose columns ``partial`` takes; None is the element itself.
        state_types: A state is one value of each of these types.
        result_type: The type of ``results``.
        number_type: The type of the arrival numbers in a numbered state; None: the result does not depend on the order
            in which states are merged. The last bits of a float and the sign of a zero do not count: such results are
            equal.
        is_numbered: Whether ``partial`` takes one more column, the last: numbers of the rows' arrival, which ascend.
            States hold those that ``merge`` goes by, whatever the order of states.
    """

    inputs: tuple[Selector | None, ...]
    state_types: tuple[ArrowType, ...]
    result_type: ArrowType
    number_type: ArrowType | None = None
    is_numbered: bool = False
    _result_state: ClassVar[int] = 0

    @staticmethod
    def accepts(kind: ArrowType) -> bool:
        """Whether the kernel can compute an aggregate whose first input is of this type."""
        return True

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order in which states are merged."""
        return self.number_type is not None and not self.is_numbered

    def numbered(self) -> Kernel:
        """The same aggregate, for states that are merged in another order than that in which their rows arrived."""
        if not self.ordered:
            return self
        found = copy.copy(self)
        found.is_numbered, found.state_types = True, (*self.state_types, self.number_type)
        return found

    @abstractmethod
    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        """The states of raw rows.

        Args:
            groups: The group of each row.
            columns: What the selectors give for the rows, in the order of ``inputs``.

        Returns:
            One array per state type, one value per group. A group without rows gets the state of nothing.
        """

    @abstractmethod
    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        """The states of some groups of states, merged in the order of rows.

        Args:
            groups: The group of each state.
            states: One array per state type, one value per state.

        Returns:
            One array per state type, one value per group.
        """

    def results(self, states: Sequence[Array]) -> Array:
        """The result of each state.

        Raises:
            AggregateOverflowError: If a result does not fit into 64 bits.
        """
        return states[self._result_state]

    def accumulators(self, states: Sequence[Array], decode: Decode = pa.Array.to_pylist) -> list[Any]:
        """The accumulators of the aggregate, with which it goes on row by row."""
        return [self.accumulator(*state) for state in zip(*map(decode, states), strict=True)]

    @abstractmethod
    def accumulator(self, *state: Any) -> Any:
        """The accumulator that one state stands for."""

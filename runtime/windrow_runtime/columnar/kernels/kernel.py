"""What a kernel is: a declared aggregate that works on columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["Array", "ArrowType", "Decode", "Kernel", "Selector", "plain_values"]

Array: TypeAlias = Any  # pyarrow ships no types
"""A ``pyarrow.Array``."""

ArrowType: TypeAlias = Any  # as above
"""A ``pyarrow.DataType``."""

Selector: TypeAlias = Callable[[Any], Any]  # selectors of elements of every type
"""What an aggregate takes from an element."""

Decode: TypeAlias = Callable[["Selector | None", Array], list[Any]]  # values of every type
"""The Python values of an array of what a selector gives; None stands for the element itself."""


def plain_values(selector: Selector | None, array: Array) -> list[Any]:
    """The values of an array as pyarrow gives them: records are dicts."""
    values: list[Any] = array.to_pylist()
    return values


class Kernel(ABC):
    """A declared aggregate that works on columns.

    It gives what the aggregate gives row by row; floats but for the last bits. Arrays are plain, never chunked; they
    may have nulls, begin at an offset, or be empty.

    Attributes:
        inputs: The selectors whose columns ``partial`` takes; None is the element itself.
        state_types: A state is one value of each of these types.
        result_type: The type of ``results``.
        ordered: Whether the result depends on the order in which states are merged. The last bits of a float and the
            sign of a zero do not count: such results are equal.
        is_numbered: Whether ``partial`` takes one more column, the last: numbers of the rows' arrival, which ascend.
            States hold those that ``merge`` goes by, whatever the order of states.
    """

    inputs: tuple[Selector | None, ...]
    state_types: tuple[ArrowType, ...]
    result_type: ArrowType
    ordered: bool = False
    is_numbered: bool = False

    def numbered(self) -> Kernel:
        """The same aggregate, for states that are merged in another order than that in which their rows arrived."""
        return self

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

    @abstractmethod
    def results(self, states: Sequence[Array]) -> Array:
        """The result of each state.

        Raises:
            AggregateOverflowError: If a result does not fit into 64 bits.
        """

    @abstractmethod
    def accumulators(self, states: Sequence[Array], decode: Decode = plain_values) -> list[Any]:
        """The accumulators of the aggregate, with which it goes on row by row.

        Args:
            states: One array per state type.
            decode: Makes the Python values that the aggregate would have got from its selectors.
        """

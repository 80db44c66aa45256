"""Defines the interface of kernels, and the kernel of a combined aggregate, which runs those of its members."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
import pyarrow as pa

from windrow.aggregates import Opaque, recognise
from windrow.expressions.tree import Element
from windrow_spark.columnar import Ints
from windrow_spark.columnar.rows.groups import Groups

Selector: TypeAlias = Callable[[Any], Any]  # selectors of elements of every type
"""Returns the part of an element that an aggregate takes."""


class Kernel(ABC):
    """Computes a declared aggregate over columns.

    :meth:`partial` makes one state per group of a batch of rows, :meth:`merge` merges the states of a group, and
    :meth:`results` gives what the aggregate gives row by row, floats but for the last bits. Arrays are plain, never
    chunked; they may have nulls, begin at an offset, or be empty.
    """

    # The selectors whose columns ``partial`` takes; None is the element itself. ``kernel_for`` sets them.
    inputs: tuple[Selector | None, ...]
    # The types of the columns of states; a state is one value of each.
    state_types: tuple[pa.DataType, ...]
    result_type: pa.DataType
    # The type of the arrival numbers in a numbered state; None: the result does not depend on the order in which states
    # are merged. The last bits of a float and the sign of a zero do not count: such results are equal.
    number_type: pa.DataType | None = None
    # Whether ``partial`` takes one more column, the last: the arrival numbers of rows, which ascend. States keep some
    # of these, and ``merge`` goes by them instead of by the order of states.
    is_numbered: bool = False
    _result_state: ClassVar[int] = 0

    def __init__(self, aggregate: Any, *types: pa.DataType) -> None:
        """Makes the kernel of an aggregate whose selectors give values of these types."""
        self._aggregate = aggregate

    @staticmethod
    def accepts(arrow_type: pa.DataType) -> bool:
        """Returns whether the kernel can compute an aggregate whose first input is of this type."""
        return True

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order in which states are merged."""
        return self.number_type is not None and not self.is_numbered

    def numbered(self) -> Kernel:
        """Returns a kernel whose states may be merged in any order, since they hold arrival numbers if it matters."""
        if not self.ordered:
            return self
        kernel = copy.copy(self)
        kernel.is_numbered, kernel.state_types = True, (*self.state_types, self.number_type)
        return kernel

    @property
    def is_large(self) -> bool:
        """Whether a state may have many bytes, so that it should not be copied for each element."""
        return any(pa.types.is_list(kind) or pa.types.is_binary(kind) for kind in self.state_types)

    @property
    def outgrows_result(self) -> bool:
        """Whether a state may have many more bytes than its result."""
        kind = self.result_type
        return self.is_large and not pa.types.is_list(kind) and kind not in self.state_types

    @abstractmethod
    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Aggregates rows, whose columns are in the order of ``inputs``; returns columns of states, a row per group."""

    @abstractmethod
    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        """Merges the states of each group, in the order of rows; returns columns with a row per group."""

    @final
    def merged_pairs(self, states: Sequence[pa.Array], count: int) -> list[pa.Array]:
        """Merges state ``i`` with state ``count + i``, for each of the first ``count`` states."""
        return self.merge(Groups(np.tile(np.arange(count), 2), count), states)

    @final
    def running(self, states: Sequence[pa.Array], firsts: Ints) -> Sequence[pa.Array]:
        """Returns, for each row, its state merged with all earlier ones of its run, whose first row is in ``firsts``.

        The distance over which states are merged doubles with each step (Hillis, Steele 1986).
        """
        reach = 1
        ranks = np.arange(len(firsts)) - firsts
        while (later := np.flatnonzero(ranks >= reach)).size:
            pairs = pa.array(np.concatenate([later - reach, later]))
            merged = self.merged_pairs([column.take(pairs) for column in states], len(later))
            source = np.arange(len(ranks))
            source[later] = np.arange(len(ranks), len(ranks) + len(later))
            states = [
                pa.concat_arrays([old, new]).take(pa.array(source)) for old, new in zip(states, merged, strict=True)
            ]
            reach *= 2
        return states

    def gives_none(self, inputs: Sequence[bool]) -> bool:
        """Returns whether the result of a window may be None, given which inputs may be None."""
        return any(inputs)

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        """Returns the result of each state; raises an AggregateOverflowError for an int beyond 64 bits."""
        return states[self._result_state]

    def accumulators(
        self, states: Sequence[pa.Array], decode: Callable[[pa.Array], list[Any]] = pa.Array.to_pylist
    ) -> list[Any]:
        """Returns the states as accumulators of the aggregate itself; ``decode`` makes Python values of a column."""
        return [self.accumulator(*state) for state in zip(*map(decode, states), strict=True)]

    def accumulator(self, *state: Any) -> Any:
        """Returns the aggregate's own accumulator for one state."""
        accumulator = state[:-1] if self.is_numbered else state
        return accumulator if len(accumulator) > 1 else accumulator[0]


@final
class CombinedKernel(Kernel):
    """``combine`` and ``into``; the state has the columns of all members' states.

    The result is a struct of the members' results, from which a tuple, or what the target returns, is made later. Its
    fields have the names that ``into`` gives them, else ``_1``, ``_2`` and so on, as in the columns of tuples. Members
    whose selectors take the same share the input.
    """

    def __init__(self, members: Sequence[tuple[str, Kernel]]) -> None:
        self._names = [name for name, _ in members]
        self.members = tuple([kernel for _, kernel in members])
        self.state_types = tuple([kind for kernel in self.members for kind in kernel.state_types])
        self.result_type = pa.struct(
            [(name or f"_{number}", kernel.result_type) for number, (name, kernel) in enumerate(members, start=1)]
        )
        self.is_numbered = any(kernel.is_numbered for kernel in self.members)
        # Of selectors that take the same, the first is kept.
        inputs: dict[object, Selector | None] = {}
        for selector in (selector for kernel in self.members for selector in kernel.inputs):
            inputs.setdefault(same_input(selector), selector)
        self.inputs = tuple(inputs.values())
        numbers = {input_: number for number, input_ in enumerate(inputs)}
        self._input_numbers = [[numbers[same_input(selector)] for selector in kernel.inputs] for kernel in self.members]

    @property
    def outgrows_result(self) -> bool:
        return any(kernel.outgrows_result for kernel in self.members)

    @property
    def ordered(self) -> bool:
        return any(kernel.ordered for kernel in self.members)

    def numbered(self) -> CombinedKernel:
        kernels = [kernel.numbered() for kernel in self.members]
        return CombinedKernel(list(zip(self._names, kernels, strict=True)))

    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        states: list[pa.Array] = []
        for kernel, numbers in zip(self.members, self._input_numbers, strict=True):
            input_ = [columns[number] for number in numbers]
            if kernel.is_numbered:
                input_.append(columns[-1])
            states += kernel.partial(groups, input_)
        return states

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        merged = self._each(states, lambda kernel, own: kernel.merge(groups, own))
        return [state for member in merged for state in member]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        results = self._each(states, lambda kernel, own: kernel.results(own))
        return pa.StructArray.from_arrays(results, fields=list(self.result_type))

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return tuple(self._each(state, lambda kernel, own: kernel.accumulator(*own)))

    def _each(self, states: Sequence[Any], call: Callable[[Kernel, Sequence[Any]], Any]) -> list[Any]:
        """Calls a function with each member's kernel and the columns of its states."""
        left = iter(states)
        return [call(kernel, [next(left) for _ in kernel.state_types]) for kernel in self.members]


def same_input(selector: Selector | None) -> object:
    """Returns a key that is equal for two selectors that are known to take the same from an element."""
    expression = Element() if selector is None else recognise(selector)
    return id(selector) if isinstance(expression, Opaque) else expression

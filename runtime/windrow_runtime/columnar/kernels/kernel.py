"""Defines the interface of kernels, and runs the kernels of a combination side by side."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
import pyarrow as pa

from windrow.aggregates import Element, Opaque, recognise
from windrow_runtime.columnar import Ints
from windrow_runtime.columnar.rows.groups import Groups

Selector: TypeAlias = Callable[[Any], Any]  # selectors of elements of every type
"""A selector: the part of an element that an aggregate takes."""


class Kernel(ABC):
    """A declared aggregate that works on columns.

    A batch of rows becomes one state per group, states of one group become one, and a state becomes a result: the one
    that the aggregate gives row by row, floats but for the last bits. Arrays are plain, never chunked; they may have
    nulls, begin at an offset, or be empty.
    """

    # The selectors whose columns ``partial`` takes; None is the element itself. ``kernel_for`` sets them.
    inputs: tuple[Selector | None, ...]
    # A state is one value of each of these types.
    state_types: tuple[pa.DataType, ...]
    result_type: pa.DataType
    # The type of the arrival numbers in a numbered state; None: the result does not depend on the order in which states
    # are merged. The last bits of a float and the sign of a zero do not count: such results are equal.
    number_type: pa.DataType | None = None
    # Whether ``partial`` takes one more column, the last: numbers of the rows' arrival, which ascend. States hold those
    # that ``merge`` goes by, whatever the order of states.
    is_numbered: bool = False
    _result_state: ClassVar[int] = 0

    def __init__(self, aggregate: Any, *types: pa.DataType) -> None:
        """Makes the kernel of an aggregate whose selectors give values of these types."""
        self._aggregate = aggregate

    @staticmethod
    def accepts(kind: pa.DataType) -> bool:
        """Returns whether the kernel can compute an aggregate whose first input is of this type."""
        return True

    @property
    def ordered(self) -> bool:
        """Returns whether the result depends on the order in which states are merged."""
        return self.number_type is not None and not self.is_numbered

    def numbered(self) -> Kernel:
        """The same aggregate, for states that are merged in another order than that in which their rows arrived."""
        if not self.ordered:
            return self
        found = copy.copy(self)
        found.is_numbered, found.state_types = True, (*self.state_types, self.number_type)
        return found

    @property
    def is_large(self) -> bool:
        """Returns whether a state may take many bytes, so that none should be copied for each element."""
        return any(pa.types.is_list(kind) or pa.types.is_binary(kind) for kind in self.state_types)

    @property
    def outgrows_result(self) -> bool:
        """Returns whether a state may take many bytes more than its result."""
        kind = self.result_type
        return self.is_large and not pa.types.is_list(kind) and kind not in self.state_types

    @abstractmethod
    def partial(self, groups: Groups, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The states of rows, whose columns are in the order of ``inputs``: an array per type, a value per group."""

    @abstractmethod
    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        """The states of groups of states, merged in the order of rows."""

    @final
    def merged_pairs(self, states: Sequence[pa.Array], count: int) -> list[pa.Array]:
        """The first ``count`` states, each merged with the state ``count`` places after it."""
        return self.merge(Groups(np.tile(np.arange(count), 2), count), states)

    @final
    def running(self, states: Sequence[pa.Array], firsts: Ints) -> Sequence[pa.Array]:
        """The states of rows, each merged with all before it in its run, whose first row ``firsts`` has for each row.

        Runs of ever longer reach are merged (Hillis, Steele 1986).
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
        """Returns whether the result of a window may be None, where those of the inputs that are marked may be."""
        return any(inputs)

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        """The result of each state; one that does not fit into 64 bits is refused."""
        return states[self._result_state]

    def accumulators(
        self, states: Sequence[pa.Array], decode: Callable[[pa.Array], list[Any]] = pa.Array.to_pylist
    ) -> list[Any]:
        """The accumulators of the aggregate, with which it goes on row by row; ``decode`` gives what selectors give."""
        return [self.accumulator(*state) for state in zip(*map(decode, states), strict=True)]

    def accumulator(self, *state: Any) -> Any:
        """The accumulator that one state stands for."""
        held = state[:-1] if self.is_numbered else state
        return held if len(held) > 1 else held[0]


@final
class CombinedKernel(Kernel):
    """``combine`` and ``into``: the columns of the members' states one after the other.

    The result is a record of the members' results, not yet the tuple or what the target makes of them. Its fields have
    the names that ``into`` has for them; without names they are ``_1``, ``_2`` and so on, as in the columns of tuples.
    Members that take the same from an element share the input.
    """

    def __init__(self, members: Sequence[tuple[str, Kernel]]) -> None:
        self._names = [name for name, _ in members]
        self.members = tuple([kernel for _, kernel in members])
        self.state_types = tuple([kind for kernel in self.members for kind in kernel.state_types])
        self.result_type = pa.struct(
            [(name or f"_{place}", kernel.result_type) for place, (name, kernel) in enumerate(members, start=1)]
        )
        self.is_numbered = any(kernel.is_numbered for kernel in self.members)
        # Of the selectors that take the same, the first.
        inputs: dict[object, Selector | None] = {}
        for selector in (selector for kernel in self.members for selector in kernel.inputs):
            inputs.setdefault(same_input(selector), selector)
        self.inputs = tuple(inputs.values())
        places = {taken: place for place, taken in enumerate(inputs)}
        self._taken = [[places[same_input(selector)] for selector in kernel.inputs] for kernel in self.members]

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
        found: list[pa.Array] = []
        for kernel, places in zip(self.members, self._taken, strict=True):
            taken = [columns[place] for place in places]
            if kernel.is_numbered:
                taken.append(columns[-1])
            found += kernel.partial(groups, taken)
        return found

    def merge(self, groups: Groups, states: Sequence[pa.Array]) -> list[pa.Array]:
        merged = self._each(states, lambda kernel, own: kernel.merge(groups, own))
        return [state for member in merged for state in member]

    def results(self, states: Sequence[pa.Array]) -> pa.Array:
        found = self._each(states, lambda kernel, own: kernel.results(own))
        return pa.StructArray.from_arrays(found, fields=list(self.result_type))

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return tuple(self._each(state, lambda kernel, own: kernel.accumulator(*own)))

    def _each(self, states: Sequence[Any], call: Callable[[Kernel, Sequence[Any]], Any]) -> list[Any]:
        """The results of each member's kernel from its own states."""
        left = iter(states)
        return [call(kernel, [next(left) for _ in kernel.state_types]) for kernel in self.members]


def same_input(selector: Selector | None) -> object:
    """The key that two selectors share if they take the same."""
    found = Element() if selector is None else recognise(selector)
    return id(selector) if isinstance(found, Opaque) else found

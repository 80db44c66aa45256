"""The kernel of combine and into: its members' kernels side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import pyarrow as pa

from windrow.aggregates import Element, Opaque, recognise
from windrow_runtime.columnar.array_types import Array
from windrow_runtime.columnar.kernels.kernel import Kernel, Selector
from windrow_runtime.columnar.rows.groups import Groups

__all__ = ["CombinedKernel", "same_input"]

# Any: accumulators of every type, as in Kernel.


@final
class CombinedKernel(Kernel):
    """``combine`` and ``into``: the columns of the members' states one after the other.

    The result is a record of the members' results, not yet the tuple or what the target makes of them. Members that
    take the same from an element share the input.

    Args:
        members: The members' kernels, with the names that ``into`` has for them; without names they are ``_1``, ``_2``
            and so on, as in the columns of tuples.
    """

    def __init__(self, members: Sequence[tuple[str, Kernel]]) -> None:
        self._names = [name for name, _ in members]
        self.members = tuple([kernel for _, kernel in members])
        self.state_types = tuple([kind for kernel in self.members for kind in kernel.state_types])
        self.result_type = pa.struct(
            [
                (name or f"_{place}", kernel.result_type)
                for place, (name, kernel) in enumerate(members, start=1)
            ]
        )
        self.is_numbered = any(kernel.is_numbered for kernel in self.members)
        # Of the selectors that take the same, the first.
        inputs: dict[object, Selector | None] = {}
        for kernel in self.members:
            for selector in kernel.inputs:
                inputs.setdefault(same_input(selector), selector)
        self.inputs = tuple(inputs.values())
        places = {taken: place for place, taken in enumerate(inputs)}
        self._taken = [
            [places[same_input(selector)] for selector in kernel.inputs] for kernel in self.members
        ]

    @property
    def ordered(self) -> bool:
        return any(kernel.ordered for kernel in self.members)

    def numbered(self) -> CombinedKernel:
        kernels = [kernel.numbered() for kernel in self.members]
        return CombinedKernel(list(zip(self._names, kernels, strict=True)))

    def partial(self, groups: Groups, columns: Sequence[Array]) -> list[Array]:
        found: list[Array] = []
        for kernel, places in zip(self.members, self._taken, strict=True):
            taken = [columns[place] for place in places]
            if kernel.is_numbered:
                taken.append(columns[-1])
            found += kernel.partial(groups, taken)
        return found

    def merge(self, groups: Groups, states: Sequence[Array]) -> list[Array]:
        merged = self._each(states, lambda kernel, own: kernel.merge(groups, own))
        return [state for member in merged for state in member]

    def results(self, states: Sequence[Array]) -> Array:
        found = self._each(states, lambda kernel, own: kernel.results(own))
        return pa.StructArray.from_arrays(found, fields=list(self.result_type))

    def accumulator(self, *state: Any) -> tuple[Any, ...]:
        return tuple(self._each(state, lambda kernel, own: kernel.accumulator(*own)))

    def _each(self, states: Sequence[Any], call: Callable[[Kernel, Sequence[Any]], Any]) -> list[Any]:
        """What each member's kernel makes of its own states."""
        left = iter(states)
        return [call(kernel, [next(left) for _ in kernel.state_types]) for kernel in self.members]


def same_input(selector: Selector | None) -> object:
    """What two selectors share if they take the same."""
    found = Element() if selector is None else recognise(selector)
    # Not the expression itself: 1 and 1.0 are equal constants, and give results of different types.
    return id(selector) if isinstance(found, Opaque) else repr(found)

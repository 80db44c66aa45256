"""Folds elements with Python functions in front of the exchange: one accumulator for many elements crosses it.

Elements are folded by pane: the windows that hold one of them hold all. A tumbling window is one pane. Sliding windows
share theirs: an element is added once, and the accumulator of its pane is merged into each window behind the exchange.
It pays where a task has several elements for each key and pane, which is known once they are grouped; elsewhere they
cross one by one.

A tumbling window has its elements in order of arrival either way: those of one task are folded in their order, and
``merge`` gets the earlier accumulator first. A sliding window has those of one pane after those of another, so its
function must say that order makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa

from windrow.aggregates.combined import Combined
from windrow.aggregates.declared import DeclaredAggregate
from windrow.functions import AggregateFunction, RichFunction
from windrow.plan import AggregateSpec, ReduceSpec, Step, WindowNode
from windrow.windows import TimeWindow
from windrow_runtime.columnar.array_types import Ints, Rows
from windrow_runtime.columnar.rows.groups import Keys, cells_of
from windrow_runtime.columnar.windows.geometry import FARTHEST, Panes, Sessions, windows_of
from windrow_runtime.operators.copies import accumulator_maker
from windrow_runtime.operators.declined import DeclinedError
from windrow_runtime.operators.errors import USER_ERRORS, call_description, raise_call_error
from windrow_runtime.operators.state.model import NOTHING
from windrow_runtime.operators.windows.table_loop import Partials

# Any in this module: keys, elements and accumulators of every type.

_WORTH_IT: Final = 4
"""From this many elements for each accumulator on, folding saves more than it costs to pickle accumulators."""

_WORTH_SHARING: Final = 3
"""The same where windows share panes: an element is added once, and its accumulator is copied and merged many times.

With 12 windows each, and accumulators that are slow to copy, three elements take as long either way; tuples of numbers
take a third of the time.
"""


@dataclass(frozen=True)
class PaneFold:
    """Folds the elements of tumbling or sliding windows.

    Attributes:
        step: The step.
        panes: Its windows.
        function: Its function, which has a ``merge``.
    """

    step: Step
    panes: Panes
    function: AggregateFunction[Any, Any, Any]

    def describe(self) -> str:
        """A few words for ``explain()``."""
        shared = ", panes shared by windows" if self.panes.windows_each > 1 else ""
        return f"folded before where that pays{shared}"

    def run(
        self, keys: Keys, rows: Rows, elements_of: Callable[[Rows], Iterator[Sequence[Any]]]
    ) -> tuple[Ints, Partials] | None:
        """Folds elements, if that is worth it: the code of the key of each accumulator, and the accumulators.

        Args:
            keys: Their keys.
            rows: Their rows, with the timestamp in the second column.
            elements_of: Makes elements of rows, some at a time.
        """
        stamps = rows.column(1).to_numpy()
        if not len(stamps) or stamps.min() < -FARTHEST or stamps.max() > FARTHEST:
            return None
        cells = cells_of(keys.codes, len(keys.distinct), self.panes.numbers_of(stamps))
        least = _WORTH_SHARING if self.panes.windows_each > 1 else _WORTH_IT
        if cells.count * least > len(stamps):
            return None
        counts = cells.groups.sizes.tolist()
        starts = self.panes.panes_at(cells.places).tolist()
        in_order = rows.take(pa.array(cells.groups.order))
        values = chain.from_iterable(elements_of(in_order))
        distinct = keys.distinct.to_pylist()
        owners = [distinct[code] for code in cells.codes.tolist()]
        return cells.codes, Partials(owners, self._fold(values, owners, starts, counts), starts, counts)

    def _fold(
        self, values: Iterator[Any], owners: Sequence[Any], starts: Sequence[int], counts: Sequence[int]
    ) -> list[Any]:
        """The accumulators of elements, of which those of one key and pane come together."""
        create, add = accumulator_maker(self.function), self.function.add
        made: list[Any] = []
        value: Any = NOTHING
        try:
            for count in counts:
                value = NOTHING  # the accumulator is made for none
                accumulator = create()
                for value in islice(values, count):
                    accumulator = add(value, accumulator)
                made.append(accumulator)
        except USER_ERRORS as error:
            place = len(made)
            given = call_description(owners[place], window=self._last_window(starts[place]), element=value)
            raise_call_error(self.step, error, given)
        return made

    def _last_window(self, pane: int) -> TimeWindow:
        start = pane - (pane - self.panes.offset) % self.panes.slide
        return TimeWindow(start, start + self.panes.size)


def fold_for(step: Step) -> PaneFold:
    """Decides how the elements of a step are folded in front of the exchange.

    Declined where somebody looks at them one by one, or the function cannot merge the accumulators of tasks.
    """
    node = step.node
    if not isinstance(node, WindowNode):
        raise DeclinedError("a process function sees each element")
    if isinstance(node.function, ReduceSpec):
        # It need not be associative.
        raise DeclinedError("what a reduce leaves need not stand for its elements")
    if not isinstance(node.function, AggregateSpec):
        raise DeclinedError("the function takes all elements of a window")
    if node.allowed_lateness:
        raise DeclinedError("each late element fires its window")
    if node.late_tag is not None:
        raise DeclinedError("late elements leave one by one")
    windows = windows_of(node)
    if isinstance(windows, Sessions):
        raise DeclinedError("a task does not know where sessions end")
    if windows.is_global:
        raise DeclinedError("the general operator runs the window of all time")
    function = node.function.aggregate
    if not function.can_merge:
        raise DeclinedError("the function has no merge")
    if _has_life(function):
        raise DeclinedError("the function is opened and closed where the step runs")
    if windows.windows_each > 1 and not function.can_share:
        raise DeclinedError("sliding windows share panes, and the function is not commutative")
    return PaneFold(step, windows, function)


def _has_life(function: RichFunction) -> bool:
    """Returns whether a function wants to be opened or closed, which is done where the step runs."""
    if isinstance(function, Combined):
        return any(_has_life(member) for _, member in function.members)
    kind = type(function)
    if isinstance(function, DeclaredAggregate) and kind.open is DeclaredAggregate.open:
        # It opens its selectors.
        return any(isinstance(selector, RichFunction) for _, selector in function.declaration.selectors)
    return kind.open is not RichFunction.open or kind.close is not RichFunction.close

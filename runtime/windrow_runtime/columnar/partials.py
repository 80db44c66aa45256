"""Python functions that fold elements in front of the exchange: what crosses it is one accumulator for many elements.

It pays where a task has several elements for each key and window, which is known once they are grouped; elsewhere they
cross one by one. Either way a window has its elements in order of arrival: those of one task are folded in their order,
and ``merge`` gets the earlier accumulator first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from windrow.errors import WindrowError
from windrow.functions import AggregateFunction, RichFunction
from windrow.plan import AggregateSpec, Step, WindowNode
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.columnar.grouping import Ints, Keys, cells_of
from windrow_runtime.operators.fast_loops import TumblingLoopOperator, fast_form
from windrow_runtime.operators.partials import Partials
from windrow_runtime.operators.step_errors import function_failed, told_by

if TYPE_CHECKING:
    from windrow_runtime.columnar.arrivals import RowChunk

__all__ = ["TumblingFold", "tumbling_fold"]

# Any in this module: keys, elements and accumulators of every type.

_WORTH_IT: Final = 4
"""So many elements for each accumulator make up for what it costs to pickle."""

_FARTHEST: Final = 1 << 62  # windows of timestamps that far may end beyond 64 bits


@dataclass(frozen=True)
class TumblingFold:
    """Folds the elements of tumbling windows.

    Attributes:
        step: The step.
        size: The size of its windows, in milliseconds.
        offset: Where one of them begins.
        function: Its function, which has a ``merge``.
    """

    step: Step
    size: int
    offset: int
    function: AggregateFunction[Any, Any, Any]

    def run(
        self, keys: Keys, rows: Any, chunks: Callable[[Any], Iterator[RowChunk]]
    ) -> tuple[Ints, Partials] | None:
        """Folds elements, if that is worth it.

        Args:
            keys: Their keys.
            rows: Their rows, with the timestamp in the second column.
            chunks: Makes elements of rows.

        Returns:
            The number of the key of each accumulator, and the accumulators.

        Raises:
            UserFunctionError: If the function fails.
        """
        stamps = rows.column(1).to_numpy()
        if not len(stamps) or stamps.min() < -_FARTHEST or stamps.max() > _FARTHEST:
            return None
        windows = (stamps - self.offset) // self.size
        cells = cells_of(keys.codes, len(keys.distinct), windows)
        if cells.count * _WORTH_IT > len(stamps):
            return None
        import pyarrow as pa

        counts = cells.groups.sizes.tolist()
        starts = (cells.places * self.size + self.offset).tolist()
        in_order = rows.take(pa.array(cells.groups.order))
        values = chain.from_iterable(chunk.values for chunk in chunks(in_order))
        distinct = keys.distinct.to_pylist()
        owners = [distinct[code] for code in cells.codes.tolist()]
        made: list[Any] = []
        try:
            made.extend(self._fold(values, counts))
        except WindrowError as error:
            raise error.at(self.step.where) from error.__cause__
        except Exception as error:
            start = starts[len(made)]
            given = told_by(owners[len(made)], window=TimeWindow(start, start + self.size))
            raise function_failed(self.step, error, given) from error
        return cells.codes, Partials(owners, made, starts, counts)

    def _fold(self, values: Iterator[Any], counts: Sequence[int]) -> Iterator[Any]:
        create, add = self.function.create_accumulator, self.function.add
        for count in counts:
            accumulator = create()
            for value in islice(values, count):
                accumulator = add(value, accumulator)
            yield accumulator


def tumbling_fold(step: Step) -> TumblingFold | None:
    """How the elements of a step are folded in front of the exchange; None: they are not.

    Nobody may look at them one by one, late ones included, and the function must be able to merge what tasks made.
    """
    node = step.node
    if not isinstance(node, WindowNode) or fast_form(node) is not TumblingLoopOperator:
        return None
    if node.allowed_lateness or node.late_tag is not None:
        return None
    # A reduce need not be associative: what is left of some elements is not said to stand for them.
    if not isinstance(node.function, AggregateSpec):
        return None
    function = node.function.aggregate
    if not function.can_merge or _has_life(function):
        return None
    assert isinstance(node.assigner, TumblingEventTimeWindows)
    return TumblingFold(step, node.assigner.size, node.assigner.offset, function)


def _has_life(function: RichFunction) -> bool:
    """Whether a function wants to be opened or closed, which is done where the step runs."""
    kind = type(function)
    return kind.open is not RichFunction.open or kind.close is not RichFunction.close

"""Runs joins whose function has an error policy: a pair for which it raises is left out, and others go on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from windrow.failures import ErrorPolicy
from windrow.functions.marked import JoinPairs
from windrow.plan import AsOfJoinNode, IntervalJoinNode, Step, WindowNode
from windrow.plan.emitting import records_of
from windrow.tags import OutputTag
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS, call_description
from windrow_runtime.operators.guarded.guard import NO_RESULT, Guard
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.state.model import KeyState, WindowEntry
from windrow_runtime.operators.timed_joins import AsOfJoinOperator, IntervalJoinOperator, PairContext
from windrow_runtime.operators.windows.general import WindowOperator

# Any in this module: keys, windows, elements and results of every type.


class _PairGuard:
    """Applies the error policy of a step to calls for pairs."""

    def __init__(self, operator: KeyedOperator, step: Step, policy: ErrorPolicy) -> None:
        self._operator = operator
        self._policy = policy
        self._guard = Guard(step, policy, self._put_out)

    def _put_out(self, tag: str, failed: object, timestamp: int | None) -> None:
        self._operator.output.side_output(tag, failed, timestamp)

    def result(
        self, call: Callable[[Any, Any], Any], key: Hashable, left: Any, right: Any, timestamp: int, window: Any = None
    ) -> Any:
        """Returns what a function gives for a pair, perhaps after some tries; ``NO_RESULT`` if it has failed."""
        once = partial(call, left, right)
        if self._guard.gives_copies:
            once = partial(self._with_copies, call, left, right)
        try:
            return once()
        except USER_ERRORS as error:
            operator = self._operator
            self._guard.metrics = operator.metrics
            windows = {} if window is None else {"window": window}
            given = partial(call_description, key, left=left, right=right, **windows)
            result = self._guard.settle(error, (own(left), own(right)), timestamp, once, given=given)
            if result is NO_RESULT and operator.observer is not None:
                operator.observer.failed(self._policy)
            return result

    @staticmethod
    def _with_copies(call: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return call(own(left), own(right))


class GuardedIntervalJoinOperator(IntervalJoinOperator):
    """Joins by interval; what a call that fails has put out is discarded."""

    def __init__(self, step: Step, node: IntervalJoinNode) -> None:
        super().__init__(step, node)
        assert node.error_policy is not None, "the caller has asked"
        self._pairs = _PairGuard(self, step, node.error_policy)
        self._context = self._holding = _HoldingContext(self)

    def _pair(self, key: Hashable, left: tuple[Any, int], right: tuple[Any, int], timestamp: int) -> None:
        context = self._holding
        context.left_timestamp, context.right_timestamp, context.timestamp = left[1], right[1], timestamp
        if self._pairs.result(self._once, key, left[0], right[0], timestamp) is NO_RESULT:
            return
        for tag, value in context.held:
            if tag is None:
                self.output.collect(value, timestamp)
            else:
                self.output.side_output(tag, value, timestamp)

    def _once(self, left: Any, right: Any) -> None:
        self._holding.held = held = []
        results = self._process(left, right, self._holding)
        if results is not None:
            for result in records_of(results, self.step.node.element_type):
                # A generator may put something out at a side output in between.
                held.append((None, own(result)))  # noqa: PERF401


class _HoldingContext(PairContext):
    """Holds what a call puts out, until it has succeeded."""

    __slots__ = ("held",)

    def __init__(self, operator: KeyedOperator) -> None:
        super().__init__(operator)
        self.held: list[tuple[str | None, Any]] = []

    def output(self, tag: OutputTag[Any], value: Any) -> None:
        self.held.append((tag.name, own(value)))


class GuardedAsOfJoinOperator(AsOfJoinOperator):
    """Joins with the version that held; a left element whose call fails is left out."""

    def __init__(self, step: Step, node: AsOfJoinNode) -> None:
        super().__init__(step, node)
        assert node.error_policy is not None, "the caller has asked"
        self._pairs = _PairGuard(self, step, node.error_policy)

    def _emit(self, key: Hashable, left: Any, right: Any, timestamp: int) -> None:
        result = self._pairs.result(self._join, key, left, right, timestamp)
        if result is not NO_RESULT:
            self.output.collect(result, timestamp)


class GuardedWindowJoinOperator(WindowOperator):
    """Joins the elements of windows; the other pairs of a window go on where a call for one fails."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        assert node.error_policy is not None, "the caller has asked"
        self._pairs = _PairGuard(self, step, node.error_policy)

    def _evaluate(
        self, key: Hashable, key_state: KeyState, window: Any, entry: WindowEntry, elements: Sequence[Any]
    ) -> None:
        assert isinstance(self.process, JoinPairs), "the caller has asked"
        timestamp, call = window.max_timestamp(), self.process.function
        for left, right in self.process.pairs(elements):
            result = self._pairs.result(call, key, left, right, timestamp, window)
            if result is not NO_RESULT:
                self.output.collect(result, timestamp)

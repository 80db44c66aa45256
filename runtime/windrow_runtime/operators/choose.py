"""Chooses the operator that runs a keyed step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from windrow.plan import (
    AggregateSpec,
    AsOfJoinNode,
    BroadcastProcessNode,
    EventTimeOrderNode,
    IntervalJoinNode,
    KeyedProcessNode,
    Node,
    PatternNode,
    ReduceSpec,
    SideInputNode,
    Step,
    WindowNode,
)
from windrow.plan.changing import takes_changes
from windrow.windows import TumblingEventTimeWindows
from windrow.windows.spec import AlignedWindows, GapWindows
from windrow_runtime.operators.broadcast.broadcast_operator import BroadcastOperator
from windrow_runtime.operators.broadcast.side_input_operator import SideInputOperator
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.guarded.folds import GuardedFoldOperator
from windrow_runtime.operators.guarded.pairs import (
    GuardedAsOfJoinOperator,
    GuardedIntervalJoinOperator,
    GuardedWindowJoinOperator,
)
from windrow_runtime.operators.guarded.patterns import GuardedPatternOperator
from windrow_runtime.operators.guarded.process import GuardedBroadcastOperator, GuardedProcessOperator
from windrow_runtime.operators.guarded.windows import GuardedWindowOperator
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.ordered.buffer import EventTimeOrderOperator
from windrow_runtime.operators.ordered.pattern_operator import PatternOperator
from windrow_runtime.operators.process_operator import ProcessOperator
from windrow_runtime.operators.timed_joins import AsOfJoinOperator, IntervalJoinOperator
from windrow_runtime.operators.windows.changing import ChangingPaneOperator, ChangingWindowOperator
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.pane_operator import PaneOperator
from windrow_runtime.operators.windows.partials import PartialsOperator
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_runtime.operators.windows.table_loop import TableOperator

# Any: each operator takes the nodes of its kind.
OPERATORS: Final[Mapping[type[Node], tuple[Callable[[Step, Any], KeyedOperator], ...]]] = {
    AsOfJoinNode: (AsOfJoinOperator, GuardedAsOfJoinOperator),
    BroadcastProcessNode: (BroadcastOperator, GuardedBroadcastOperator),
    EventTimeOrderNode: (EventTimeOrderOperator,),
    IntervalJoinNode: (IntervalJoinOperator, GuardedIntervalJoinOperator),
    KeyedProcessNode: (ProcessOperator, GuardedProcessOperator),
    PatternNode: (PatternOperator, GuardedPatternOperator),
    SideInputNode: (SideInputOperator,),
}
"""The operators of each kind of keyed steps without windows: the usual one, and that of steps with an error policy."""


def operator_for(step: Step, *, fast: bool = True) -> KeyedOperator:
    """Makes a new operator for a keyed step; a loop for its windows if ``fast``, else the general operator."""
    return _chosen(step, fast=fast)[0]()


def form_text(step: Step, *, fast: bool = True) -> str:
    """Describes for ``explain()`` which loop runs a keyed step on Python objects, or why the general operator does."""
    return f"Python, {_chosen(step, fast=fast)[1]}"


def _chosen(step: Step, *, fast: bool) -> tuple[Callable[[], KeyedOperator], str]:
    """Chooses what makes the operator of a keyed step, and describes it."""
    node = step.node.windows
    if node is None:
        operator = OPERATORS[type(step.node)][0 if step.node.error_policy is None else -1]
        return partial(operator, step, step.node), "element by element"
    if takes_changes(node):
        changing = ChangingPaneOperator if node.spec.fires_panes else ChangingWindowOperator
        return partial(changing, step, node), "changes: withdrawn elements are taken out again"
    if node.spec.fires_panes:
        return partial(PaneOperator, step, node), "panes"
    if node.error_policy is not None:
        return partial(_guarded_windows(node), step, node), "general operator: a call that fails changes nothing"
    try:
        if not fast:
            raise DeclinedError("faster forms are turned off")
        loop = loop_of_windows(step, node)
    except DeclinedError as declined:
        return partial(WindowOperator, step, node), f"general operator: {declined}"
    return lambda: loop, loop.form


def _guarded_windows(node: WindowNode) -> type[WindowOperator]:
    if node.pair_function is not None:
        return GuardedWindowJoinOperator
    return GuardedWindowOperator if node.function.fold is None else GuardedFoldOperator


def loop_of_windows(step: Step, node: WindowNode) -> PartialsOperator:
    """Makes the loop that runs the windows of a step; declined where only the general operator does."""
    spec = node.spec
    if spec.why_asked is not None:
        raise DeclinedError(spec.why_asked)
    shape = None if spec.by_clock else spec.shape
    if isinstance(shape, GapWindows):
        return SessionLoopOperator(step, node, shape)
    if isinstance(shape, AlignedWindows):
        if not isinstance(node.function, (ReduceSpec, AggregateSpec)):
            raise DeclinedError("the function takes all elements of a window")
        return TableOperator(step, node, shape)
    if type(node.assigner) is TumblingEventTimeWindows:
        raise DeclinedError("windows are staggered")
    raise DeclinedError(f"there is no loop for {type(node.assigner).__name__}")

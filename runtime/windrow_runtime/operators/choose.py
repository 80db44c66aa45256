"""Chooses the operator that runs a keyed step."""

from __future__ import annotations

from contextlib import suppress

from windrow.plan import (
    AggregateSpec,
    AsOfJoinNode,
    BroadcastProcessNode,
    IntervalJoinNode,
    KeyedProcessNode,
    ReduceSpec,
    Step,
    WindowNode,
)
from windrow.plan.changing import takes_changes
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.broadcast_operator import BroadcastOperator
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.process_operator import ProcessOperator
from windrow_runtime.operators.timed_joins import AsOfJoinOperator, IntervalJoinOperator
from windrow_runtime.operators.windows.changing import ChangingPaneOperator, ChangingWindowOperator
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.pane_operator import PaneOperator
from windrow_runtime.operators.windows.session_loop import SessionLoopOperator
from windrow_runtime.operators.windows.shape import AlignedWindows, GapWindows, lets_panes_out, shape_of
from windrow_runtime.operators.windows.table_loop import TableOperator


def operator_for(step: Step, *, fast: bool = True) -> KeyedOperator:
    """Makes a new operator for a keyed step; a loop for its windows if ``fast``, else the general operator."""
    node = step.node
    if isinstance(node, KeyedProcessNode):
        return ProcessOperator(step, node)
    if isinstance(node, BroadcastProcessNode):
        return BroadcastOperator(step, node)
    if isinstance(node, IntervalJoinNode):
        return IntervalJoinOperator(step, node)
    if isinstance(node, AsOfJoinNode):
        return AsOfJoinOperator(step, node)
    assert isinstance(node, WindowNode), f"{node.kind} is not a keyed step"
    if takes_changes(node):
        return (ChangingPaneOperator if lets_panes_out(node) else ChangingWindowOperator)(step, node)
    if lets_panes_out(node):
        return PaneOperator(step, node)
    if fast:
        with suppress(DeclinedError):
            return _loop_for(step, node)
    return WindowOperator(step, node)


def form_text(step: Step, *, fast: bool = True) -> str:
    """Describes for ``explain()`` which loop runs a keyed step on Python objects, or why the general operator does."""
    if not isinstance(step.node, WindowNode):
        return "Python, element by element"
    if takes_changes(step.node):
        return "Python, changes: withdrawn elements are taken out again"
    if lets_panes_out(step.node):
        return "Python, panes"
    if not fast:
        return "Python, general operator: faster forms are turned off"
    try:
        return f"Python, {_loop_for(step, step.node).form}"
    except DeclinedError as declined:
        return f"Python, general operator: {declined}"


def _loop_for(step: Step, node: WindowNode) -> WindowOperator:
    """The loop over the elements of a step; declined where only the general operator runs it."""
    shape = shape_of(node)
    if isinstance(shape, GapWindows):
        return SessionLoopOperator(step, node, shape)
    if isinstance(shape, AlignedWindows):
        if not isinstance(node.function, (ReduceSpec, AggregateSpec)):
            raise DeclinedError("the function takes all elements of a window")
        return TableOperator(step, node, shape)
    if type(node.assigner) is TumblingEventTimeWindows:
        raise DeclinedError("windows are staggered")
    raise DeclinedError(f"there is no loop for {type(node.assigner).__name__}")

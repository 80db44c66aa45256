"""Which operator runs which keyed step."""

from __future__ import annotations

from windrow.plan import KeyedProcessNode, Step, WindowNode
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.process_operator import ProcessOperator
from windrow_runtime.operators.window_operator import WindowOperator

__all__ = ["operator_for"]


def operator_for(step: Step) -> KeyedOperator:
    """A new operator for a keyed step."""
    if isinstance(step.node, WindowNode):
        return WindowOperator(step, step.node)
    if isinstance(step.node, KeyedProcessNode):
        return ProcessOperator(step, step.node)
    raise AssertionError(f"{step.node.kind} is not a keyed step")

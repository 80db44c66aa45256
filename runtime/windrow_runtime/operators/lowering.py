"""Which operator runs which keyed step."""

from __future__ import annotations

from windrow.plan import KeyedProcessNode, Step, WindowNode
from windrow_runtime.operators.fast_loops import fast_form
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.process_operator import ProcessOperator
from windrow_runtime.operators.window_operator import WindowOperator

__all__ = ["operator_for"]


def operator_for(step: Step, *, fast: bool = True) -> KeyedOperator:
    """A new operator for a keyed step.

    Args:
        step: The step.
        fast: Whether a loop for its shape may run it; otherwise the general operator does, which is the reference.
    """
    if isinstance(step.node, WindowNode):
        form = (fast_form(step.node) if fast else None) or WindowOperator
        return form(step, step.node)
    if isinstance(step.node, KeyedProcessNode):
        return ProcessOperator(step, step.node)
    raise AssertionError(f"{step.node.kind} is not a keyed step")

"""Chooses the operator that runs a keyed step."""

from __future__ import annotations

from windrow.plan import KeyedProcessNode, Step, WindowNode
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.process_operator import ProcessOperator
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.loops import fast_form, why_general

__all__ = ["form_text", "operator_for"]


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


def form_text(step: Step, *, fast: bool = True) -> str:
    """How a keyed step runs on Python objects, for ``explain()``: by which loop, or why by the general operator."""
    if not isinstance(step.node, WindowNode):
        return "Python, element by element"
    form = fast_form(step.node) if fast else None
    if form is not None:
        return f"Python, {form.shape}"
    return f"Python, general operator: {why_general(step.node) if fast else 'faster forms are turned off'}"

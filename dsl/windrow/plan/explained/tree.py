"""Shows a plan as an indented tree: each step above what it reads from."""

from __future__ import annotations

from collections.abc import Sequence

from windrow.plan.explained.step_view import StepView, sides_of

__all__ = ["render_tree"]


def render_tree(name: str, views: Sequence[StepView]) -> str:
    """A line a step, above the steps that it reads from: one below it, several as branches.

    A step that several others read is shown where it comes first; the others name it.

    Args:
        name: The name of the pipeline.
        views: Its steps.
    """
    by_number = {view.number: view for view in views}
    read = {number for view in views for number in view.inputs}
    lines = [f"pipeline {name}: each step above what it reads from"]
    shown: set[int] = set()
    waiting = _branches([("", view.number) for view in views if view.number not in read], "")
    while waiting:
        number, first, rest = waiting.pop()
        view = by_number[number]
        if number in shown:
            lines.append(f"{first}{view.title}, as above")
            continue
        shown.add(number)
        lines += _lines(view, first, rest)
        waiting += _branches(list(zip(sides_of(view), view.inputs, strict=True)), rest)
    return "\n".join(lines)


def _branches(inputs: Sequence[tuple[str, int]], indent: str) -> list[tuple[int, str, str]]:
    """The steps to show next, the last one first: their numbers, what is before their first line, and before others."""
    if len(inputs) == 1:
        return [(inputs[0][1], indent, indent)]
    branches = [(number, f"{indent}├─ {_before(side)}", f"{indent}│  ") for side, number in inputs]
    if branches:
        side, number = inputs[-1]
        branches[-1] = (number, f"{indent}└─ {_before(side)}", f"{indent}   ")
    return branches[::-1]


def _before(side: str) -> str:
    return f"{side}: " if side else ""


def _lines(view: StepView, first: str, rest: str) -> list[str]:
    line = f"{first}{view.title}  {view.text}".rstrip()
    below = [*view.notes, *([] if view.form is None else [f"runs as {view.form}"])]
    return [line if view.element_type is None else f"{line}  : {view.element_type}", *[f"{rest}    {n}" for n in below]]

"""The formats in which ``explain()`` shows a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, get_args

from windrow.errors import InvalidArgumentError
from windrow.plan.explained.document import render_json
from windrow.plan.explained.mermaid import render_mermaid
from windrow.plan.explained.picture import render_svg
from windrow.plan.explained.step_view import PlanFormat, StepView
from windrow.plan.render import render_text

_RENDERERS: Final[dict[str, Callable[[str, Sequence[StepView]], str]]] = {
    "text": render_text,
    "mermaid": render_mermaid,
    "svg": render_svg,
}


def render(plan_format: PlanFormat, name: str, views: Sequence[StepView], runner: str | None) -> str:
    """A plan in a format.

    Args:
        plan_format: The format.
        name: The name of the pipeline.
        views: Its steps.
        runner: The class of the engine whose forms they have; None: none.

    Raises:
        InvalidArgumentError: If there is no such format.
    """
    if plan_format == "json":
        return render_json(name, views, runner)
    if plan_format not in _RENDERERS:
        expected = " or ".join(map(repr, get_args(PlanFormat)))
        raise InvalidArgumentError("a plan has no such format", given=repr(plan_format), expected=expected)
    return _RENDERERS[plan_format](name, views)

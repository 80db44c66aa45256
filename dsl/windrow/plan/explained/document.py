"""Shows a plan as JSON, by a schema that tools may rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

from windrow.calls.attributes import attribute_of
from windrow.plan.explained.step_view import StepView
from windrow.plan.keyed_nodes import WindowNode
from windrow.windows import GlobalWindows

VERSION: Final = 1
"""The version of the schema. It grows where a field goes, or means something else; a new field does not change it."""


class LocationDocument(TypedDict):
    """A line of the user's program."""

    file: str
    line: int


class WindowDocument(TypedDict):
    """The windows of a step.

    Attributes:
        assigner: Their class.
        text: The assigner with its settings.
        time: In which time they lie; None for global windows, which have no end.
        size_ms: Their length; None where they have none.
        slide_ms: The time between two windows; None where they do not slide.
        gap_ms: The gap that ends a session; None for other windows, and where it is one of each element.
        offset_ms: How far they are shifted; None where they cannot be.
        trigger: The trigger with its settings.
        default_trigger: Whether that is the one of the assigner.
        evictor: The evictor with its settings; None where there is none.
        allowed_lateness_ms: How long windows are kept after their end.
        accumulation: How panes relate, where that was set.
        late_outputs: The names of the side outputs for late elements.
    """

    assigner: str
    text: str
    time: Literal["event", "processing"] | None
    size_ms: int | None
    slide_ms: int | None
    gap_ms: int | None
    offset_ms: int | None
    trigger: str
    default_trigger: bool
    evictor: str | None
    allowed_lateness_ms: int
    accumulation: str | None
    late_outputs: list[str]


class StepDocument(TypedDict):
    """A step.

    Attributes:
        id: The id, as errors, counters and progress reports have it.
        number: The number, by which texts name it. Steps come in the order of their numbers, with gaps for members.
        kind: What it is, such as ``source``, ``map``, ``window``, ``left_join`` or ``sink``.
        name: The name that the user gave it, after those of its scopes.
        text: What it does, in a few words for people.
        inputs: The ids of the steps that it reads from; of a join that of the left stream first.
        type: The type of its elements, for people; None where it is not known, and for sinks.
        where: The line of the program that made it; None where that is not known.
        windows: Its windows; None for other steps.
        notes: What may be lost there.
        form: In which form the runner runs it; None without a runner, and for steps that have no form.
        reasons: Why that is no faster one.
        members: The ids of the steps that bring both streams of a join together; they are no steps of this list.
    """

    id: str
    number: int
    kind: str
    name: str | None
    text: str
    inputs: list[str]
    type: str | None
    where: LocationDocument | None
    windows: WindowDocument | None
    notes: list[str]
    form: str | None
    reasons: list[str]
    members: list[str]


class PlanDocument(TypedDict):
    """A plan.

    Attributes:
        schema: Says that this is a plan of windrow.
        version: The version of the schema.
        pipeline: The name of the pipeline.
        runner: The class of the runner whose forms the steps have; None: no runner was asked.
        steps: The steps, inputs before what reads them.
    """

    schema: Literal["windrow.plan"]
    version: Literal[1]
    pipeline: str
    runner: str | None
    steps: list[StepDocument]


def render_json(name: str, views: Sequence[StepView], runner: str | None) -> str:
    """The plan as JSON, a :class:`PlanDocument`.

    Args:
        name: The name of the pipeline.
        views: Its steps.
        runner: The class of the engine that was asked for forms.
    """
    ids = {view.number: view.step.id for view in views}
    document: PlanDocument = {
        "schema": "windrow.plan",
        "version": VERSION,
        "pipeline": name,
        "runner": runner,
        "steps": [_step(view, ids) for view in views],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _step(view: StepView, ids: Mapping[int, str]) -> StepDocument:
    node = view.step.node
    return {
        "id": view.step.id,
        "number": view.number,
        "kind": view.kind,
        "name": view.step.name,
        "text": view.text,
        "inputs": [ids[number] for number in view.inputs],
        "type": view.element_type,
        "where": None if node.location is None else {"file": node.location.file, "line": node.location.line},
        "windows": None if node.windows is None else _windows(node.windows),
        "notes": list(view.notes),
        "form": None if view.form is None else view.form.name,
        "reasons": [] if view.form is None else list(view.form.reasons),
        "members": [step.id for step in view.members],
    }


def _windows(node: WindowNode) -> WindowDocument:
    assigner = node.assigner
    tags = [node.late_tag, *node.late_tags]
    return {
        "assigner": type(assigner).__name__,
        "text": assigner.describe(),
        "time": None if isinstance(assigner, GlobalWindows) else "event" if assigner.is_event_time else "processing",
        "size_ms": _millis(assigner, "size"),
        "slide_ms": _millis(assigner, "slide"),
        "gap_ms": _millis(assigner, "gap"),
        "offset_ms": _millis(assigner, "offset"),
        "trigger": node.effective_trigger.describe(),
        "default_trigger": node.trigger is None,
        "evictor": None if node.evictor is None else node.evictor.describe(),
        "allowed_lateness_ms": node.allowed_lateness or 0,
        "accumulation": None if node.panes.mode is None else node.panes.mode.value,
        "late_outputs": list(dict.fromkeys(tag.name for tag in tags if tag is not None)),
    }


def _millis(assigner: Any, name: str) -> int | None:
    """A setting of an assigner in milliseconds. Any: assigners of users may have anything under that name."""
    value = attribute_of(assigner, name)
    return value if type(value) is int and type(assigner).__module__.startswith("windrow.") else None

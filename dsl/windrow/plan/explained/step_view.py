"""Makes views of the steps of a plan, which each format of ``explain()`` shows.

Steps that mark the elements of two streams, bring them together and split them by key belong to the step that joins
them: a join is one step of a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from windrow.functions.marked import CoGroup, JoinPairs, SideKey
from windrow.plan.base_node import Node, Words
from windrow.plan.changing import repeating_windows
from windrow.plan.explained.form import Form
from windrow.plan.explained.labels import function_text, pair_text, short_type
from windrow.plan.explained.lost import TagsRead, waits_for_ever
from windrow.plan.steps import Step
from windrow.windows import GlobalWindows

PlanFormat: TypeAlias = Literal["text", "mermaid", "json", "svg"]
"""The name of a format of ``explain()``."""


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as ``explain()`` shows it.

    Attributes:
        step: The step.
        kind: What it is, such as ``window`` or ``left_join``, which is a window step that joins two streams.
        text: What it does, in a few words.
        inputs: The numbers of the steps that it reads from; of a join those of the left and of the right stream.
        element_type: The type of its elements, for people; None where it is not known, and for a sink.
        notes: What may be lost there.
        form: In which form an engine runs it, and why in no faster one; None: no engine was asked, or it has no form.
        members: The steps that belong to it, which bring the elements of both streams of a join together.
    """

    step: Step
    kind: str
    text: str
    inputs: tuple[int, ...]
    element_type: str | None
    notes: tuple[str, ...]
    form: Form | None
    members: tuple[Step, ...] = ()

    @property
    def number(self) -> int:
        """The number of the step, by which others name it."""
        return self.step.index

    @property
    def title(self) -> str:
        """The title of the step."""
        return self.step.title


def views_of(steps: Sequence[Step], forms: Mapping[str, Form]) -> list[StepView]:
    """Views of the steps of a plan, in their order.

    Args:
        steps: The steps, inputs before what reads them.
        forms: How an engine runs steps, by their ids.
    """
    by_node = {id(step.node): step for step in steps}
    joins, tags = _joins(steps), TagsRead(steps)
    hidden = {id(node) for members in joins.values() for node in members}
    types: dict[int, object | None] = {}
    views: list[StepView] = []
    for step in steps:
        node = step.node
        types[id(node)] = type_form = _element_type(node, types)
        if id(node) in hidden:
            continue
        members = joins.get(id(node), [])
        inputs = [each.inputs[0] for each in members if each.port] if members else node.inputs
        views.append(
            StepView(
                step=step,
                kind=node.shown_kind,
                text=" ".join(_text(node).split()),
                inputs=tuple(by_node[id(each)].index for each in inputs),
                element_type=None if type_form is None or node.is_sink or node.states_type else short_type(type_form),
                notes=(
                    *_notes(node, by_node),
                    *(f"{each.name!r} is read by nothing: its elements are lost" for each in tags.unread(node)),
                ),
                form=forms.get(step.id),
                members=tuple(by_node[id(each)] for each in members),
            )
        )
    return views


def _joins(steps: Sequence[Step]) -> dict[int, list[Node]]:
    """The nodes that belong to each node of two streams: the marks of the left and of the right one first."""
    readers: dict[int, list[Node]] = {}
    for step in steps:
        for source in step.node.inputs:
            readers.setdefault(id(source), []).append(step.node)
    nodes_by_id: dict[int, list[Node]] = {}
    for step in steps:
        union = step.node
        if [each.port for each in union.inputs] != ["left", "right"]:
            continue
        keys = [each for each in readers.get(id(union), []) if each.keys is not None]
        members: list[Node] = [*union.inputs, union, *keys]
        inner = {id(each) for each in members}
        # A key of two streams may be read by several joins, which all show it as theirs.
        for node in {id(each): each for member in members for each in readers.get(id(member), [])}.values():
            if id(node) not in inner:
                nodes_by_id[id(node)] = [*union.inputs, union, *(each for each in keys if each in node.inputs)]
    return nodes_by_id


# Any: functions of windows of every type.
def _joined(process: CoGroup[Any] | JoinPairs[Any]) -> str:
    return pair_text(process.function)


_WORDS: Final = Words(function_text, pair_text, _joined, short_type)
"""Lambdas are called by what they compute."""


def _text(node: Node) -> str:
    """What a node does: as it describes itself, with what lambdas compute in place of the word."""
    text = node.describe(_WORDS)
    keys = node.inputs[0].keys if node.inputs else None
    if keys is not None and isinstance(keys.selector, SideKey):
        sides = dict.fromkeys(map(function_text, keys.selector.selectors))
        text = f"by {' and '.join(sides)}, {text}"
    if (policy := node.error_policy) is not None:
        text = f"{text}, {policy.describe()}"
    return text if node.shown_kind == node.kind else f"{node.shown_kind} {text}"


def _element_type(node: Node, types: Mapping[int, object | None]) -> object | None:
    """The type of the elements of a node: what the plan says, or for a node that passes elements on, of its input."""
    if node.element_type is None and node.keeps_elements:
        return types[id(node.inputs[0])]
    return node.element_type


def _notes(node: Node, by_node: Mapping[int, Step]) -> Iterator[str]:
    if early := _stamped_early(node):
        yield f"results of {_named(early, by_node)} may be late here, and {node.fate_of_late}"
    if dropping := _dropping_late(node):
        yield (
            f"elements that are late at {_named(dropping, by_node)} are dropped there, so the allowed lateness here "
            "does not get them: allowed_lateness(...) there keeps them, side outputs for late data show them"
        )
    if repeating := repeating_windows(node):
        yield (
            f"panes of {_named(repeating, by_node)} hold the elements of earlier panes, which count again here: "
            "discarding() there counts each once, retracting() leaves the last pane"
        )
    if (windows := node.windows) is not None and windows.spec.may_leave_unfired:
        by_clock = not windows.assigner.is_event_time
        end = "the stream" if by_clock or isinstance(windows.assigner, GlobalWindows) else "a window"
        yield f"elements that wait for a firing when {end} ends are dropped"
    if waits_for_ever(node):
        yield "no_watermarks() upstream fires these windows at the end of the stream alone, which it does not have"


def _named(nodes: Sequence[Node], by_node: Mapping[int, Step]) -> str:
    """Some steps by their numbers."""
    return " and ".join(f"step {number}" for number in sorted(by_node[id(node)].index for node in nodes))


def _stamped_early(node: Node) -> list[Node]:
    """The steps upstream whose results may be late at a step; none where lateness is allowed.

    With a timestamp combiner a result carries a timestamp that the watermark may have passed before the window fires,
    and so does an element that has waited for a side input.
    """
    if node.lateness or node.fate_of_late is None:
        return []
    return [each for each in _upstream(node, node.inputs) if each.stamps_early_in(node)]


def _dropping_late(node: Node) -> list[Node]:
    """The steps upstream that drop late elements although this step would still take them."""
    if not node.lateness:
        return []
    upstream = _upstream(node, node.made_of or node.inputs)
    return [each for each in upstream if each.lateness < node.lateness and each.drops_late]


def _upstream(node: Node, inputs: Sequence[Node]) -> Iterator[Node]:
    """The nodes upstream by some inputs of a step, up to windows and to steps that give timestamps."""
    waiting, seen = list(inputs), {id(node)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or each.makes_watermarks is not None:
            continue
        seen.add(id(each))
        yield each
        if each.windows is None:
            waiting += each.made_of or each.inputs


def sides_of(view: StepView) -> list[str]:
    """A word before each input of a step: which stream of a join it is; empty texts for other steps."""
    return ["left", "right"] if view.members else [""] * len(view.inputs)

"""Validates plans beyond what type checkers prove, and raises all faults together.

A kind of node has its checks in a function that is registered for its class; a new kind brings its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import chain
from typing import Any, TypeAlias, get_origin

from windrow.errors import Fault, PlanError
from windrow.evictors import CountEvictor
from windrow.facts.packages import is_of_windrow
from windrow.facts.reached import tags_of
from windrow.functions.names import function_name
from windrow.functions.type_names import type_name
from windrow.panes import AccumulationMode
from windrow.patterns.ordered_nodes import InEventTimeNode
from windrow.plan.base_node import Node
from windrow.plan.changing import origin_of_changes, takes_changes
from windrow.plan.emitting import HINT as RECORDS_HINT
from windrow.plan.emitting import TUPLE_HINT, gives_one_tuple, is_fixed_tuple, is_single
from windrow.plan.fitting import can_fit
from windrow.plan.folders import folder_faults
from windrow.plan.keyed_nodes import AggregateSpec, TimedJoinNode, WindowNode
from windrow.plan.keys import HINT as KEY_HINT
from windrow.plan.keys import key_type, unhashable_part
from windrow.plan.location import Scope
from windrow.plan.nodes import KeyByNode, ReturnsNode, SideOutputNode, SinkNode, TimestampsNode
from windrow.plan.own_parts import expiry_faults, failed_tag_faults, state_faults, unrun_faults
from windrow.plan.sink_faults import sink_faults, sink_set_faults
from windrow.plan.steps import Step, StepFault
from windrow.plan.types import called_by, result_type
from windrow.plan.walk import upstream_of
from windrow.rows.sink_keys import row_key_faults
from windrow.side_inputs.views import SideInputNode
from windrow.tags import OutputTag
from windrow.text_options import is_line
from windrow.time import duration_text
from windrow.triggers import (
    ComposableTrigger,
    ContinuousEventTimeTrigger,
    EventTimeoutTrigger,
    EventTimeTrigger,
    Finish,
    MergingTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from windrow.triggers.checks import parts_that_cannot_merge
from windrow.triggers.composable import AfterEndOfWindow, AfterWatermark, DefaultTrigger
from windrow.triggers.trigger import with_parts
from windrow.windows import GlobalWindows, MergingWindowAssigner

EarlierTags: TypeAlias = dict[int, list[OutputTag[Any]]]
"""The tags of the side outputs that were taken so far of each node, by the node's id()."""


def validate(pipeline: str, steps: Sequence[Step]) -> None:
    """Raise what is wrong with a plan.

    Raises:
        PlanError: With every fault.
    """
    faults = list(_faults(pipeline, steps))
    if faults:
        raise PlanError(faults)


def _faults(pipeline: str, steps: Sequence[Step]) -> Iterator[Fault]:
    if not any(step.node.is_sink for step in steps):
        yield Fault("the pipeline has no sink", pipeline, "add stream.sink_to(...)")
    names = Counter(step.name for step in steps if step.name is not None)
    earlier_tags: EarlierTags = {}
    stated = {id(step.node.inputs[0]): step.node.element_type for step in steps if step.node.states_type}
    for step in steps:
        name = step.name
        if name is not None and names[name] > 1:
            yield Fault(f"the name {name!r} is given to several steps", step.where, "give each its own name")
        if name is not None and not is_line(name):
            # The place of the step has the name in it.
            yield Fault(
                f"the name {name!r} of a step is no line of text",
                str(step.node.location),
                "give it no control characters, and no half of a surrogate pair",
            )
        faults = chain(
            _node_faults(step.node, earlier_tags),
            _result_faults(step.node, stated),
            _change_faults(step.node),
            unrun_faults(step.node),
            state_faults(step.node),
            expiry_faults(step.node),
            failed_tag_faults(step.node),
        )
        yield from (Fault(message, step.where, hint) for message, hint in faults)
    yield from _scope_faults(steps)
    yield from sink_set_faults(steps)
    yield from folder_faults(steps)


def _scope_faults(steps: Sequence[Step]) -> Iterator[Fault]:
    """Names that were given to scopes, and that other scopes beside them have."""
    scopes: dict[Scope, None] = {}
    for step in steps:
        scope = step.node.scope
        while scope is not None:
            scopes[scope], scope = None, scope.parent
    names = Counter((scope.parent, scope.name) for scope in scopes)
    for scope in scopes:
        if scope.is_given and names[scope.parent, scope.name] > 1:
            yield Fault(
                f"the name {scope.name!r} is given to a scope, and another one has it",
                str(scope.location),
                "give each its own name",
            )


@singledispatch
def _node_faults(node: Node, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    """The faults of one step; classes of nodes that are not registered below have none of their own."""
    return iter(())


@_node_faults.register
def _timestamps_faults(node: TimestampsNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    if node.strategy.ingestion_time and node.timestamp is not None:
        yield (
            "ingestion time takes timestamps from the clock, and a timestamp function was given",
            "leave timestamp out, or use another strategy",
        )
    if node.timestamp is None and not node.strategy.ingestion_time and not node.input.has_timestamps:
        yield (
            "the stream has no timestamps to make watermarks from",
            "assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
        )
    if node.strategy.silence is not None and any(each.is_keyed for each in upstream_of(node)):
        yield (
            "the silence of a source says nothing about when a keyed step emits elements",
            "leave with_silence out here, and give it to the strategy at the source",
        )


@_node_faults.register
def _window_faults(node: WindowNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    if node.assigner.is_event_time and not node.input.has_timestamps:
        yield (
            f"{node.assigner.describe()} needs timestamps, and the stream has none",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )
    if not node.assigner.is_event_time:
        if node.allowed_lateness is not None:
            yield (
                f"{node.assigner.describe()} is not in event time and knows no lateness",
                "leave allowed_lateness out, or use an event-time assigner",
            )
        if node.late_tag is not None or any(node.late_tags):
            yield (
                f"{node.assigner.describe()} is not in event time and has no late elements",
                "leave side_output_late_data out, or use an event-time assigner",
            )
    if isinstance(node.assigner, GlobalWindows):
        yield from _global_window_faults(node)
    yield from _event_timeout_faults(node)
    yield from _composable_faults(node)
    if node.error_policy is not None and takes_changes(node):
        yield (
            f"{origin_of_changes(node)} are upstream, and windows with on_error cannot take out what is withdrawn",
            "leave on_error out, and catch in the function what may fail; or put the windows behind changelog(...)",
        )
    elif node.error_policy is not None and node.spec.fires_panes:
        mode = "" if node.panes.mode is None else f", {node.panes.mode.value}"
        yield (
            f"windows that fire panes ({node.effective_trigger.describe()}{mode}) have no on_error",
            "leave on_error out, and catch in the function what may fail; or use windows without panes",
        )
    if node.error_policy is not None and node.function.fold is not None:
        yield from _guarded_fold_faults(node)
    if node.merging:
        trigger = node.effective_trigger
        if not isinstance(trigger, MergingTrigger):
            yield _cannot_merge(node, trigger)
        if isinstance(node.function, AggregateSpec) and node.evictor is None and not node.function.aggregate.can_merge:
            yield (
                f"{node.function.aggregate.describe()} has no merge, but {node.assigner.describe()} merges windows",
                "override AggregateFunction.merge",
            )


def _guarded_fold_faults(node: WindowNode) -> Iterator[StepFault]:
    if node.evictor is not None:
        what, guilty = "windows with an evictor", "the evictor"
        if isinstance(node.assigner, GlobalWindows) and isinstance(node.evictor, CountEvictor):
            # count_window with a slide has such an evictor, which the user did not write.
            what, guilty = f"windows of the last {node.evictor.max_count} elements", "the slide of count_window"
        yield (
            f"{what} fold all elements anew at each firing, so on_error can leave out none",
            f"compute what may fail in map(function, on_error=...) before the windows, or leave {guilty} out",
        )
    if node.merging and not _is_of_windrow(type(node.assigner), "assign_windows", "merge_windows"):
        # It may give an element several windows, which merge with each other: the operator tries one after the other.
        yield (
            f"{node.assigner.describe()} assigns or merges windows in a way of its own, and the windows have on_error",
            "compute what may fail in map(function, on_error=...) before the windows, or use sessions",
        )


def _is_of_windrow(class_: type[object], *methods: str) -> bool:
    return all(is_of_windrow(getattr(class_, method).__module__) for method in methods)


# Any: triggers of every type.
def _cannot_merge(node: WindowNode, trigger: Trigger[Any, Any]) -> StepFault:
    guilty = parts_that_cannot_merge(trigger)
    names, (first, *_) = " and ".join(part.describe() for part in guilty), guilty
    whose = f"part{'s' * (len(guilty) > 1)} {names} of the " if first is not trigger else ""
    class_ = type(first)
    if class_.__module__.startswith("windrow."):
        hint = "use a trigger that can merge, such as CountTrigger or after_count, or windows that do not merge"
    elif isinstance(first, ComposableTrigger):
        hint = f"derive {class_.__name__} from MergingComposableTrigger, and override merge"
    else:
        hint = f"derive {class_.__name__} from MergingTrigger, and override on_merge"
    message = f"the {whose}trigger {trigger.describe()} cannot merge, but {node.assigner.describe()} merges windows"
    return (message, hint)


@_node_faults.register
def _timed_join_faults(node: TimedJoinNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    if not node.input.has_timestamps:
        yield (
            f"{node.kind} needs timestamps, and not both streams have them",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) on both before the join",
        )


@_node_faults.register
def _side_input_faults(node: SideInputNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    for view in node.views:
        if view.windows.assigner is not None and not (node.input.has_timestamps and view.has_timestamps):
            whose = "the main stream" if view.has_timestamps else "the side input"
            yield (
                f"{view.describe()} maps timestamps to windows, and {whose} has none",
                "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) on it before",
            )


@_node_faults.register
def _ordered_faults(node: InEventTimeNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    if not node.input.has_timestamps:
        yield (
            f"{node.kind} needs timestamps, and the stream has none",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before key_by",
        )


@_node_faults.register
def _key_faults(node: KeyByNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    type_form = key_type(node)
    part = unhashable_part(type_form)
    if part is not None:
        within = "" if part == type_form else f" in {type_name(type_form)}"
        yield (f"keys of type {type_name(part)}{within} cannot be hashed", KEY_HINT)


@_node_faults.register
def _returns_faults(node: ReturnsNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    known, stated = node.input.element_type, node.element_type
    if known is not None and stated is not None and not can_fit(known, stated) and not can_fit(stated, known):
        yield (
            f"returns({type_name(stated)}) is said of elements of type {type_name(known)}",
            "state their type, or a wider one; map(...) makes elements of another type",
        )


def _result_faults(node: Node, stated: Mapping[int, object]) -> Iterator[StepFault]:
    """Functions that return one value where the records of a step are expected.

    ``stated`` is the type of elements that ``returns`` states after a node, by its id().
    """
    known = node.element_type or stated.get(id(node))
    for function in node.emitting:
        type_form = result_type(function)
        if type_form is not None and is_single(type_form):
            yield (
                f"{function_name(function)} returns {type_name(type_form)}, whose items would be taken for records",
                TUPLE_HINT if is_fixed_tuple(type_form) else RECORDS_HINT,
            )
        elif type_form is None and (known is None or _is_tuple(known)) and gives_one_tuple(called_by(function)):
            yield (f"{function_name(function)} returns one tuple, whose parts would be taken for records", TUPLE_HINT)


def _is_tuple(type_form: object) -> bool:
    type_form = get_origin(type_form) or type_form
    return isinstance(type_form, type) and issubclass(type_form, tuple)


def _global_window_faults(node: WindowNode) -> Iterator[StepFault]:
    """Triggers that cannot fire, as the global window has no end."""
    trigger = node.effective_trigger
    while isinstance(trigger, PurgingTrigger):
        trigger = trigger.inner
    if node.trigger is None and isinstance(trigger, NeverTrigger):
        yield (
            "GlobalWindows has no trigger, so no element would ever come out",
            "call trigger(...), such as trigger(CountTrigger.of(100)); "
            "GlobalWindows.create_with_end_of_stream_trigger() fires at the end of bounded input",
        )
    elif isinstance(trigger, (EventTimeTrigger, ProcessingTimeTrigger)):
        yield (
            f"{trigger.describe()} fires at the end of a window, and the global window has none",
            "GlobalWindows.create_with_end_of_stream_trigger() fires at the end of bounded input; "
            "a continuous trigger fires at intervals",
        )
    elif isinstance(trigger, ContinuousEventTimeTrigger) and not node.input.has_timestamps:
        yield (
            f"{trigger.describe()} needs timestamps, and the stream has none",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )


def _event_timeout_faults(node: WindowNode) -> Iterator[StepFault]:
    """Timeouts in event time where the windows, or the elements, have none."""
    part = next((part for part in with_parts(node.effective_trigger) if isinstance(part, EventTimeoutTrigger)), None)
    if part is None or node.assigner.is_event_time:
        return
    if not isinstance(node.assigner, GlobalWindows):
        yield (
            f"{part.describe()} waits for the watermark, and {node.assigner.describe()} is in processing time",
            "use an event-time assigner, or ProcessingTimeoutTrigger",
        )
    elif not node.input.has_timestamps:
        yield (
            f"{part.describe()} needs timestamps, and the stream has none",
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )


def _change_faults(node: Node) -> Iterator[StepFault]:
    """Steps that would take a withdrawal for a result."""
    if not (node.is_sink or node.is_keyed or node.begins_changes is not None) or not takes_changes(node):
        return
    origin = origin_of_changes(node)
    hint = "changelog(lambda kind, result: ...) makes records of changes, which everything takes"
    sink, windows = node.writes, node.windows
    if sink is not None and sink.deletes_withdrawn:
        hint += f"; a {type(sink).__name__} with a key deletes what is withdrawn"
    if sink is not None and not sink.takes_changes:
        yield (f"{sink.describe()} would write withdrawals as results: {origin} are upstream", hint)
    elif windows is None and not node.is_sink:
        yield (
            f"{node.describe()} takes elements for good, and {origin} upstream withdraw some",
            f"{hint}; or use windows, which take withdrawn elements out again",
        )
    elif windows is not None and windows.evictor is not None:
        yield (f"{windows.evictor.describe()} removes elements for good, and {origin} upstream withdraw some", hint)
    elif windows is not None and windows.spec.drops_what_fired:
        if windows.panes.mode is AccumulationMode.DISCARDING:
            dropping, keeping = "discarding()", "retracting()"
        else:
            dropping = windows.effective_trigger.describe()
            keeping = "a trigger that does not purge, with retracting(),"
        yield (
            f"the windows cannot take an element out again, because {dropping} drops what they have output: where "
            f"{origin} upstream withdraw it, it would count twice",
            f"{keeping} keeps the elements; or let the windows fire once, at their end, without allowed lateness; "
            f"or {hint}",
        )
    elif windows is not None and windows.spec.by_clock:
        yield (
            f"{windows.assigner.describe()} would take a row out of the window of the moment, and not out of the one "
            f"that has it, where {origin} upstream withdraw it",
            f"use windows in event time, or GlobalWindows with a trigger and retracting(); or {hint}",
        )
    elif windows is not None and isinstance(windows.assigner, MergingWindowAssigner):
        yield (
            f"windows of {windows.assigner.describe()} that have merged would stay one where the row between them is "
            f"withdrawn, as {origin} upstream may do",
            f"use windows that do not merge; or {hint}",
        )
    elif windows is not None and windows.spec.leaves_results:
        yield (
            "the windows fire several times, and a group would keep its result where its last row is withdrawn, as "
            f"{origin} upstream may do",
            "retracting() withdraws the result before the next one, or without one where no row is left; or let the "
            f"windows fire once, at their end, without allowed lateness; or {hint}",
        )


def _composable_faults(node: WindowNode) -> Iterator[StepFault]:
    """Triggers that would lose elements, and those whose time never comes."""
    trigger = node.effective_trigger
    ends = [
        part for part in with_parts(trigger) if isinstance(part, (AfterEndOfWindow, DefaultTrigger, AfterWatermark))
    ]
    if ends and not node.assigner.is_event_time and not isinstance(node.assigner, GlobalWindows):
        yield (
            f"{ends[0].describe()} waits for the watermark, and {node.assigner.describe()} is in processing time",
            "use an event-time assigner, or after_processing_time(...)",
        )
    if not isinstance(trigger, ComposableTrigger) or node.panes.may_lose_data:
        return
    if trigger.finish is Finish.ANY_TIME:
        yield (
            f"{trigger.describe()} may be finished while the window is open: what arrives afterwards would be lost",
            f"repeatedly({trigger!r}) goes on; trigger(..., may_lose_data=True) drops those elements",
        )
    elif trigger.finish is Finish.WINDOW_END and node.allowed_lateness:
        yield (
            f"{trigger.describe()} is finished when the watermark has passed the window: elements that arrive within "
            f"the allowed lateness of {duration_text(node.allowed_lateness)} would be lost",
            "after_watermark(late=after_count(1)), or default(), fires for late elements; leave allowed_lateness out; "
            "or trigger(..., may_lose_data=True) drops them",
        )


@_node_faults.register
def _side_output_faults(node: SideOutputNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    producer = node.input
    while producer.states_type or producer.side_output is not None:
        producer = producer.inputs[0]
    outputs, process = producer.side_outputs, producer.outputs_aside
    if process is not None:
        outputs = (*outputs, *tags_of(process))
    tags_before = earlier_tags.setdefault(id(producer), [])
    yield from _tag_type_faults(node.tag, [*outputs, *tags_before])
    tags_before.append(node.tag)
    if process is None and node.tag not in outputs:
        names = ", ".join(repr(tag.name) for tag in outputs)
        yield (
            f"the step {producer.name or producer.kind!r} has no side output {node.tag.name!r}",
            f"its side outputs are: {names}"
            if outputs
            else "a source with on_malformed=tag, a window or a join with late outputs, map_async with timed_out=tag, "
            "a step with on_error=tag, or a process function that outputs to the tag has one",
        )


def _tag_type_faults(tag: OutputTag[Any], others: Sequence[OutputTag[Any]]) -> Iterator[StepFault]:
    """The first tag of the same name whose elements are of another type: tags with one name are one output."""
    for other in others:
        types = (tag.element_type, other.element_type)
        if other == tag and None not in types and types[0] != types[1]:
            yield (
                f"the side output {tag.name!r} is taken as {type_name(types[0])}, and is of {type_name(types[1])}",
                "use one OutputTag object for both, or another name",
            )
            return


@_node_faults.register
def _faults_of_sink(node: SinkNode, earlier_tags: EarlierTags) -> Iterator[StepFault]:
    yield from sink_faults(node)
    yield from row_key_faults(node)

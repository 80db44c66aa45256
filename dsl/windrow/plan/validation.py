"""What a plan must fulfil beyond what the type checker proves. All faults are raised together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from windrow.aggregates.selectors import selector_type
from windrow.errors import Fault, PlanError
from windrow.functions.names import function_name
from windrow.functions.plain import Applied, AppliedAll, WithoutKey
from windrow.plan.emitting import HINT as RECORDS_HINT
from windrow.plan.emitting import is_single
from windrow.plan.fitting import can_fit
from windrow.plan.folders import folder_faults
from windrow.plan.keys import HINT as KEY_HINT
from windrow.plan.keys import unhashable_part
from windrow.plan.nodes import (
    AggregateSpec,
    FlatMapNode,
    KeyByNode,
    KeyedProcessNode,
    Node,
    ReturnsNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    WindowNode,
    type_name,
)
from windrow.plan.steps import Step
from windrow.plan.tags_in_code import tags_of
from windrow.plan.types import result_type
from windrow.sinks import CollectSink, WriterSink
from windrow.tags import OutputTag
from windrow.triggers import (
    ContinuousEventTimeTrigger,
    EventTimeTrigger,
    MergingTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from windrow.windows import GlobalWindows

__all__ = ["has_timestamps", "validate"]


def validate(pipeline: str, steps: Sequence[Step]) -> None:
    """Raise what is wrong with a plan.

    Raises:
        PlanError: With every fault.
    """
    faults = list(_faults(pipeline, steps))
    if faults:
        raise PlanError(faults)


def _faults(pipeline: str, steps: Sequence[Step]) -> Iterator[Fault]:
    if not any(isinstance(step.node, SinkNode) for step in steps):
        yield Fault("the pipeline has no sink", pipeline, "add stream.sink_to(...)")
    names = Counter(step.node.name for step in steps if step.node.name is not None)
    taken: dict[int, list[OutputTag[Any]]] = {}
    for step in steps:
        node = step.node
        if node.name is not None and names[node.name] > 1:
            yield Fault(
                f"the name {node.name!r} is given to several steps", step.where, "give each its own name"
            )
        if isinstance(node, WindowNode):
            yield from _window_faults(step, node)
        elif isinstance(node, TimestampsNode):
            if node.strategy.ingestion_time and node.timestamp is not None:
                yield Fault(
                    "ingestion time takes timestamps from the clock, and a timestamp function was given",
                    step.where,
                    "leave timestamp out, or use another strategy",
                )
            if node.timestamp is None and not node.strategy.ingestion_time and not has_timestamps(node.input):
                yield Fault(
                    "the stream has no timestamps to make watermarks from",
                    step.where,
                    "assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...)",
                )
        elif isinstance(node, SideOutputNode):
            yield from _side_output_faults(step, node, taken)
        elif isinstance(node, KeyByNode):
            yield from _key_faults(step, node)
        elif isinstance(node, ReturnsNode):
            yield from _returns_faults(step, node)
        elif isinstance(node, SinkNode):
            yield from _sink_faults(step, node)
        yield from _result_faults(step)
    yield from _sink_set_faults(steps)
    yield from folder_faults(steps)


def _window_faults(step: Step, node: WindowNode) -> Iterator[Fault]:
    if node.assigner.is_event_time and not has_timestamps(node.input):
        yield Fault(
            f"{node.assigner.describe()} needs timestamps, and the stream has none",
            step.where,
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )
    if not node.assigner.is_event_time:
        if node.allowed_lateness is not None:
            yield Fault(
                f"{node.assigner.describe()} is not in event time and knows no lateness",
                step.where,
                "leave allowed_lateness out, or use an event-time assigner",
            )
        if node.late_tag is not None:
            yield Fault(
                f"{node.assigner.describe()} is not in event time and has no late elements",
                step.where,
                "leave side_output_late_data out, or use an event-time assigner",
            )
    if isinstance(node.assigner, GlobalWindows):
        yield from _global_window_faults(step, node)
    if node.merging:
        trigger = node.effective_trigger
        if not isinstance(trigger, MergingTrigger):
            yield Fault(
                f"the trigger {trigger.describe()} cannot merge, but {node.assigner.describe()} merges windows",
                step.where,
                "use a MergingTrigger",
            )
        if (
            isinstance(node.function, AggregateSpec)
            and node.evictor is None
            and not node.function.aggregate.can_merge
        ):
            yield Fault(
                f"{node.function.aggregate.describe()} has no merge, but {node.assigner.describe()} merges windows",
                step.where,
                "override AggregateFunction.merge",
            )


def _key_faults(step: Step, node: KeyByNode) -> Iterator[Fault]:
    kind = node.key_type or selector_type(node.selector, node.element_type)
    part = unhashable_part(kind)
    if part is not None:
        within = "" if part == kind else f" in {type_name(kind)}"
        yield Fault(f"keys of type {type_name(part)}{within} cannot be hashed", step.where, KEY_HINT)


def _returns_faults(step: Step, node: ReturnsNode) -> Iterator[Fault]:
    known, stated = node.input.element_type, node.element_type
    if known is not None and stated is not None and not can_fit(known, stated) and not can_fit(stated, known):
        yield Fault(
            f"returns({type_name(stated)}) is said of elements of type {type_name(known)}",
            step.where,
            "state their type, or a wider one; map(...) makes elements of another type",
        )


def _result_faults(step: Step) -> Iterator[Fault]:
    for function in _emitting(step.node):
        kind = result_type(function)
        if kind is not None and is_single(kind):
            yield Fault(
                f"{function_name(function)} returns {type_name(kind)}, whose items would be taken for records",
                step.where,
                RECORDS_HINT,
            )


def _emitting(node: Node) -> tuple[object, ...]:
    """The functions of a step that return the records to emit."""
    if isinstance(node, FlatMapNode):
        return (node.function,)
    if isinstance(node, KeyedProcessNode):
        return (node.function.process_element, node.function.on_timer)
    if not isinstance(node, WindowNode) or node.function.process is None:
        return ()
    process = node.function.process
    inner = process.function if isinstance(process, WithoutKey) else process
    if isinstance(inner, (Applied, AppliedAll)):
        return (inner.function,)
    return (inner.process,)


def _global_window_faults(step: Step, node: WindowNode) -> Iterator[Fault]:
    """Triggers that cannot fire, as the global window has no end."""
    trigger = node.effective_trigger
    while isinstance(trigger, PurgingTrigger):
        trigger = trigger.inner
    if node.trigger is None and isinstance(trigger, NeverTrigger):
        yield Fault(
            "GlobalWindows has no trigger, so no element would ever come out",
            step.where,
            "call trigger(...), such as trigger(CountTrigger.of(100)); "
            "GlobalWindows.create_with_end_of_stream_trigger() fires at the end of bounded input",
        )
    elif isinstance(trigger, (EventTimeTrigger, ProcessingTimeTrigger)):
        yield Fault(
            f"{trigger.describe()} fires at the end of a window, and the global window has none",
            step.where,
            "GlobalWindows.create_with_end_of_stream_trigger() fires at the end of bounded input; "
            "a continuous trigger fires at intervals",
        )
    elif isinstance(trigger, ContinuousEventTimeTrigger) and not has_timestamps(node.input):
        yield Fault(
            f"{trigger.describe()} needs timestamps, and the stream has none",
            step.where,
            "call assign_timestamps_and_watermarks(strategy, timestamp=lambda element: ...) before the windows",
        )


def _side_output_faults(
    step: Step, node: SideOutputNode, taken_before: dict[int, list[OutputTag[Any]]]
) -> Iterator[Fault]:
    """Faults of a side output.

    Args:
        step: The step.
        node: The side output.
        taken_before: The tags that were taken of each step so far.
    """
    producer = node.input
    while isinstance(producer, (ReturnsNode, SideOutputNode)):
        producer = producer.inputs[0]
    known: list[OutputTag[Any]] = []
    process: object | None = None
    if isinstance(producer, WindowNode):
        if producer.late_tag is not None:
            known.append(producer.late_tag)
        process = producer.function.process
    elif isinstance(producer, KeyedProcessNode):
        process = producer.function
    elif isinstance(producer, SourceNode) and isinstance(producer.source.on_malformed, OutputTag):
        known.append(producer.source.on_malformed)
    if process is not None:
        known.extend(tags_of(process))
    taken = taken_before.setdefault(id(producer), [])
    yield from _tag_type_faults(step, node.tag, [*known, *taken])
    taken.append(node.tag)
    if process is None and node.tag not in known:
        names = ", ".join(repr(tag.name) for tag in known)
        yield Fault(
            f"the step {producer.name or producer.kind!r} has no side output {node.tag.name!r}",
            step.where,
            f"its side outputs are: {names}"
            if known
            else "a source with on_malformed=tag, a window with "
            "side_output_late_data(tag) or a process function that outputs to the tag has one",
        )


def _tag_type_faults(step: Step, tag: OutputTag[Any], others: Sequence[OutputTag[Any]]) -> Iterator[Fault]:
    """The first tag of the same name whose elements are of another type: tags with one name are one output."""
    for other in others:
        types = (tag.element_type, other.element_type)
        if other == tag and None not in types and types[0] != types[1]:
            yield Fault(
                f"the side output {tag.name!r} is taken as {type_name(types[0])}, and is of {type_name(types[1])}",
                step.where,
                "use one OutputTag object for both, or another name",
            )
            return


def _sink_faults(step: Step, node: SinkNode) -> Iterator[Fault]:
    if isinstance(node.input, KeyByNode):
        yield Fault("a keyed stream cannot go to a sink", step.where, "use the stream before key_by")
    if node.sink.needs_schema and node.input.element_type is None:
        takes = node.sink.takes
        yield Fault(
            f"the columns of the sink {node.sink.describe()!r} cannot be known: the type of the elements is not"
            if takes is None
            else f"the sink {node.sink.describe()!r} takes {takes.__name__} only; the type of the elements is unknown",
            step.where,
            "annotate the function that makes them, or call returns(Type) before sink_to",
        )
    elif node.sink.takes not in (None, node.input.element_type):
        yield Fault(
            f"the sink {node.sink.describe()!r} takes {node.sink.takes.__name__} only, and the elements are "
            f"{getattr(node.input.element_type, '__name__', node.input.element_type)}",
            step.where,
            "map the elements before sink_to",
        )


def _sink_set_faults(steps: Sequence[Step]) -> Iterator[Fault]:
    sinks = [step for step in steps if isinstance(step.node, SinkNode)]
    objects = Counter(id(step.node.sink) for step in sinks if isinstance(step.node, SinkNode))
    for step in sinks:
        if not isinstance(step.node, SinkNode):
            continue
        if isinstance(step.node.sink, CollectSink) and objects[id(step.node.sink)] > 1:
            yield Fault("one CollectSink takes several streams", step.where, "make one for each stream")
        if isinstance(step.node.sink, WriterSink) and len(sinks) > 1:
            yield Fault(
                "a WriterSink must be the only sink of its pipeline", step.where, "make a pipeline of its own"
            )


def has_timestamps(node: Node) -> bool:
    """Whether the elements that a step gives carry timestamps."""
    if isinstance(node, (TimestampsNode, WindowNode)):
        return True
    if isinstance(node, SourceNode):
        return node.source.has_timestamps
    if isinstance(node, SideOutputNode):
        # Late elements keep the timestamps with which they came; what a window function puts out has its window's.
        return has_timestamps(node.input)
    return bool(node.inputs) and all(has_timestamps(source) for source in node.inputs)

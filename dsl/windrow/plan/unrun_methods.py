"""Finds methods that windrow calls for their effect, and that Python would not run: generators and coroutines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from inspect import iscoroutinefunction, isgeneratorfunction
from typing import Final

from windrow.connectors.custom_sink import CustomSink
from windrow.errors import Fault
from windrow.functions import ProcessAllWindowFunction, ProcessWindowFunction
from windrow.functions.names import function_name
from windrow.functions.plain import WithoutKey
from windrow.functions.rich import RichFunction
from windrow.plan.nodes import (
    AggregateSpec,
    FilterNode,
    FlatMapNode,
    KeyByNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ReduceSpec,
    SinkNode,
    WindowNode,
)
from windrow.plan.steps import Step
from windrow.sinks import FunctionSink
from windrow.triggers import ComposableTrigger, Trigger
from windrow.triggers.trigger import with_parts

__all__ = ["unrun_faults"]

_CALLED_FOR_EFFECT: Final[tuple[tuple[type, tuple[str, ...]], ...]] = (
    (RichFunction, ("open", "close")),
    (ProcessWindowFunction, ("clear",)),
    (ProcessAllWindowFunction, ("clear",)),
    (Trigger, ("clear", "on_merge")),
    (ComposableTrigger, ("observe", "observe_timer", "forget")),
    (CustomSink, ("open", "write", "close")),
)


def unrun_faults(step: Step) -> Iterator[Fault]:
    """Give a fault for each method of a step whose call would run none of its code."""
    for part in _parts_of(step.node):
        if isinstance(part, FunctionSink):
            # What is no plain function is called by a method of its class.
            yield from _faults_of(step, function_name(part.function), (part.function, type(part.function).__call__))
        for kind, names in _CALLED_FOR_EFFECT:
            for name in names if isinstance(part, kind) else ():
                yield from _faults_of(step, f"{type(part).__name__}.{name}", (getattr(type(part), name, None),))


def _faults_of(step: Step, name: str, codes: tuple[object, ...]) -> Iterator[Fault]:
    kind = "a generator" if any(map(isgeneratorfunction, codes)) else None
    kind = "a coroutine" if any(map(iscoroutinefunction, codes)) else kind
    if kind is not None:
        yield Fault(
            f"{name} is {kind}, so none of its code would run when it is called",
            step.where,
            "write it without yield and async; nobody takes what it gives",
        )


@singledispatch
def _parts_of(node: Node) -> tuple[object, ...]:
    """The objects of a step whose methods users may have written."""
    return ()


@_parts_of.register(MapNode)
@_parts_of.register(FlatMapNode)
@_parts_of.register(FilterNode)
@_parts_of.register(KeyedProcessNode)
def _parts_with_function(node: MapNode | FlatMapNode | FilterNode | KeyedProcessNode) -> tuple[object, ...]:
    return (node.function,)


@_parts_of.register
def _parts_of_key(node: KeyByNode) -> tuple[object, ...]:
    return (node.selector,)


@_parts_of.register
def _parts_of_window(node: WindowNode) -> tuple[object, ...]:
    spec, trigger = node.function, node.effective_trigger
    process = spec.process
    fold = spec.aggregate if isinstance(spec, AggregateSpec) else spec.reduce if isinstance(spec, ReduceSpec) else None
    whole = process.function if isinstance(process, WithoutKey) else process
    return (whole, fold, node.assigner, node.evictor, *with_parts(trigger))


@_parts_of.register
def _parts_of_sink(node: SinkNode) -> tuple[object, ...]:
    return (node.sink,)

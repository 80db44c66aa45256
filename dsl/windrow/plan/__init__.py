"""Defines plans, which chains of builder calls make."""

from windrow.patterns.ordered_nodes import EventTimeOrderNode, InEventTimeNode, PatternNode
from windrow.plan.base_node import Node, PlainFunction, Words
from windrow.plan.explained.form import Form
from windrow.plan.keyed_nodes import (
    AggregateSpec,
    AsOfJoinNode,
    BroadcastProcessNode,
    FunctionSpec,
    IntervalJoinNode,
    KeyedProcessNode,
    LateTags,
    ProcessSpec,
    ReduceSpec,
    TimedJoinNode,
    WindowNode,
)
from windrow.plan.location import Scope
from windrow.plan.nodes import (
    BroadcastNode,
    ChangelogNode,
    FilterNode,
    FlatMapNode,
    FromChangesNode,
    KeyByNode,
    MapAsyncNode,
    MapBatchesNode,
    MapNode,
    ProcessNode,
    ReturnsNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    UnionNode,
)
from windrow.plan.pipeline import Collected, Engine, Pipeline, Runner
from windrow.plan.steps import Step
from windrow.side_inputs.views import SideInputNode

__all__ = [
    "AggregateSpec",
    "AsOfJoinNode",
    "BroadcastNode",
    "BroadcastProcessNode",
    "ChangelogNode",
    "Collected",
    "Engine",
    "EventTimeOrderNode",
    "FilterNode",
    "FlatMapNode",
    "Form",
    "FromChangesNode",
    "FunctionSpec",
    "InEventTimeNode",
    "IntervalJoinNode",
    "KeyByNode",
    "KeyedProcessNode",
    "LateTags",
    "MapAsyncNode",
    "MapBatchesNode",
    "MapNode",
    "Node",
    "PatternNode",
    "Pipeline",
    "PlainFunction",
    "ProcessNode",
    "ProcessSpec",
    "ReduceSpec",
    "ReturnsNode",
    "Runner",
    "Scope",
    "SideInputNode",
    "SideOutputNode",
    "SinkNode",
    "SourceNode",
    "Step",
    "TimedJoinNode",
    "TimestampsNode",
    "UnionNode",
    "WindowNode",
    "Words",
]

"""Plans: what a chain of builder calls makes."""

from windrow.plan.nodes import (
    AggregateSpec,
    ChangelogNode,
    FilterNode,
    FlatMapNode,
    FunctionSpec,
    KeyByNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ProcessSpec,
    ReduceSpec,
    ReturnsNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    UnionNode,
    WindowNode,
)
from windrow.plan.pipeline import Engine, Pipeline
from windrow.plan.steps import Step

__all__ = [
    "AggregateSpec",
    "ChangelogNode",
    "Engine",
    "FilterNode",
    "FlatMapNode",
    "FunctionSpec",
    "KeyByNode",
    "KeyedProcessNode",
    "MapNode",
    "Node",
    "Pipeline",
    "ProcessSpec",
    "ReduceSpec",
    "ReturnsNode",
    "SideOutputNode",
    "SinkNode",
    "SourceNode",
    "Step",
    "TimestampsNode",
    "UnionNode",
    "WindowNode",
]

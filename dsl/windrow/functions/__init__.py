"""The functions that users write."""

from windrow.functions.aggregate import AggregateFunction, ReduceFunction
from windrow.functions.element import FilterFunction, FlatMapFunction, KeySelector, MapFunction
from windrow.functions.process import (
    KeyedProcessContext,
    KeyedProcessFunction,
    OnTimerContext,
    TimeDomain,
    TimerService,
)
from windrow.functions.rich import Counter, MetricGroup, RichFunction, RuntimeContext
from windrow.functions.window_function import ProcessAllWindowFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.functions.with_pane import WithPane, with_pane

__all__ = [
    "AggregateFunction",
    "Counter",
    "FilterFunction",
    "FlatMapFunction",
    "KeySelector",
    "KeyedProcessContext",
    "KeyedProcessFunction",
    "MapFunction",
    "MetricGroup",
    "OnTimerContext",
    "ProcessAllWindowFunction",
    "ProcessWindowContext",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RichFunction",
    "RuntimeContext",
    "TimeDomain",
    "TimerService",
    "WithPane",
    "with_pane",
]

"""The functions that users write."""

from windrow.functions.aggregate import AggregateFunction, ReduceFunction
from windrow.functions.broadcast import (
    BroadcastContext,
    KeyedBroadcastProcessFunction,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
)
from windrow.functions.distribution import Distribution
from windrow.functions.element import FilterFunction, FlatMapFunction, KeySelector, MapFunction
from windrow.functions.process import KeyedProcessContext, KeyedProcessFunction, OnTimerContext, TimerService
from windrow.functions.retries import AsyncRetryStrategy, ExponentialBackoffDelayRetryStrategy, FixedDelayRetryStrategy
from windrow.functions.rich import Counter, Gauge, Histogram, MetricGroup, RichFunction, RuntimeContext
from windrow.functions.stateless import AsyncFunction, ProcessContext, ProcessFunction
from windrow.functions.two_inputs import (
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    JoinFunction,
    KeyedCoProcessFunction,
    ProcessJoinContext,
    ProcessJoinFunction,
)
from windrow.functions.window_function import ProcessAllWindowFunction, ProcessWindowContext, ProcessWindowFunction
from windrow.functions.with_pane import WithPane, with_pane
from windrow.time import TimeDomain

__all__ = [
    "AggregateFunction",
    "AsyncFunction",
    "AsyncRetryStrategy",
    "BroadcastContext",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "Counter",
    "Distribution",
    "ExponentialBackoffDelayRetryStrategy",
    "FilterFunction",
    "FixedDelayRetryStrategy",
    "FlatMapFunction",
    "Gauge",
    "Histogram",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessContext",
    "KeyedProcessFunction",
    "MapFunction",
    "MetricGroup",
    "OnTimerContext",
    "ProcessAllWindowFunction",
    "ProcessContext",
    "ProcessFunction",
    "ProcessJoinContext",
    "ProcessJoinFunction",
    "ProcessWindowContext",
    "ProcessWindowFunction",
    "ReadOnlyContext",
    "ReadOnlyOnTimerContext",
    "ReduceFunction",
    "RichFunction",
    "RuntimeContext",
    "TimeDomain",
    "TimerService",
    "WithPane",
    "with_pane",
]

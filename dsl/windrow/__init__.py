"""windrow: a typed, Dataflow-style language for windowed streams."""

from windrow.errors import WindrowError
from windrow.plan.pipeline import DataStreamSink, Pipeline
from windrow.stream import DataStream, KeyedStream
from windrow.stream_sources import from_collection, from_dataframe, from_source
from windrow.tags import OutputTag
from windrow.watermarks import WatermarkStrategy
from windrow.windowed import (
    AllWindowedStream,
    MaybeEmptyAllWindowedStream,
    MaybeEmptyMergingAllWindowedStream,
    MaybeEmptyMergingWindowedStream,
    MaybeEmptyWindowedStream,
    MergingAllWindowedStream,
    MergingWindowedStream,
    WindowedStream,
)

__version__ = "0.1.0"

__all__ = [
    "AllWindowedStream",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "MaybeEmptyAllWindowedStream",
    "MaybeEmptyMergingAllWindowedStream",
    "MaybeEmptyMergingWindowedStream",
    "MaybeEmptyWindowedStream",
    "MergingAllWindowedStream",
    "MergingWindowedStream",
    "OutputTag",
    "Pipeline",
    "WatermarkStrategy",
    "WindowedStream",
    "WindrowError",
    "from_collection",
    "from_dataframe",
    "from_source",
]

"""windrow: a typed, Dataflow-style language for windowed streams."""

from typing import TYPE_CHECKING

from windrow.builder.broadcast import BroadcastConnectedStream, BroadcastStream
from windrow.builder.connect import ConnectedStreams, KeyedConnectedStreams
from windrow.builder.interval_join import AsOfJoin, IntervalJoin, IntervalJoined, LeftAsOfJoin, OuterIntervalJoined
from windrow.builder.pattern_stream import PatternStream
from windrow.builder.side_input_stream import SideInputStream
from windrow.builder.side_inputs import SideInput, as_dict, as_list, as_singleton
from windrow.builder.stage import DataStreamSink
from windrow.builder.stream import DataStream, KeyedStream
from windrow.builder.window_join import (
    CoGroupedStreams,
    CoGroupEqualTo,
    CoGroupWhere,
    CoGroupWithWindow,
    JoinedStreams,
    JoinEqualTo,
    JoinWhere,
    JoinWithWindow,
    MergingWindowCoGroup,
    MergingWindowJoin,
    WindowCoGroup,
    WindowJoin,
    WithWindow,
)
from windrow.builder.windowed import (
    AllWindowedStream,
    MaybeEmptyAllWindowedStream,
    MaybeEmptyMergingAllWindowedStream,
    MaybeEmptyMergingWindowedStream,
    MaybeEmptyWindowedStream,
    MergingAllWindowedStream,
    MergingWindowedStream,
    WindowedStream,
)
from windrow.calls.other_names import unknown_name
from windrow.errors import WindrowError
from windrow.plan.pipeline import Pipeline, PipelineSink
from windrow.plan.types import DecimalType
from windrow.rows.tables import from_changes
from windrow.stream_sources import from_arrow, from_collection, from_dataframe, from_pandas, from_polars, from_source
from windrow.tags import OutputTag
from windrow.watermarks import WatermarkStrategy

__version__ = "0.1.0"

__all__ = [
    "AllWindowedStream",
    "AsOfJoin",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CoGroupEqualTo",
    "CoGroupWhere",
    "CoGroupWithWindow",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "DecimalType",
    "IntervalJoin",
    "IntervalJoined",
    "JoinEqualTo",
    "JoinWhere",
    "JoinWithWindow",
    "JoinedStreams",
    "KeyedConnectedStreams",
    "KeyedStream",
    "LeftAsOfJoin",
    "MaybeEmptyAllWindowedStream",
    "MaybeEmptyMergingAllWindowedStream",
    "MaybeEmptyMergingWindowedStream",
    "MaybeEmptyWindowedStream",
    "MergingAllWindowedStream",
    "MergingWindowCoGroup",
    "MergingWindowJoin",
    "MergingWindowedStream",
    "OuterIntervalJoined",
    "OutputTag",
    "PatternStream",
    "Pipeline",
    "PipelineSink",
    "SideInput",
    "SideInputStream",
    "WatermarkStrategy",
    "WindowCoGroup",
    "WindowJoin",
    "WindowedStream",
    "WindrowError",
    "WithWindow",
    "as_dict",
    "as_list",
    "as_singleton",
    "from_arrow",
    "from_changes",
    "from_collection",
    "from_dataframe",
    "from_pandas",
    "from_polars",
    "from_source",
]

if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)

"""Sources and sinks beyond those that windrow has: your own, and those that installed packages bring."""

from windrow.arrow import ArrowArray, ArrowStream
from windrow.connectors.custom_sink import CustomSink, SinkContext
from windrow.connectors.custom_source import CustomSource
from windrow.connectors.plugins import sink_class, source_class

__all__ = ["ArrowArray", "ArrowStream", "CustomSink", "CustomSource", "SinkContext", "sink_class", "source_class"]

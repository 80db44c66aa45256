"""Defines sources and sinks beyond windrow's: your own, those of other packages, and several as one."""

from windrow.addresses.datasets import Dataset
from windrow.arrow import ArrowArray, ArrowStream
from windrow.connectors.custom_sink import CustomSink, SinkContext
from windrow.connectors.custom_source import CustomSource
from windrow.connectors.hybrid import HybridSource, SourceSwitch
from windrow.connectors.plugins import sink_class, source_class

__all__ = [
    "ArrowArray",
    "ArrowStream",
    "CustomSink",
    "CustomSource",
    "Dataset",
    "HybridSource",
    "SinkContext",
    "SourceSwitch",
    "sink_class",
    "source_class",
]

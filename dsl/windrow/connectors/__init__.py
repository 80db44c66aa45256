"""Sources and sinks beyond those that windrow has: your own, and those that installed packages bring."""

from windrow.connectors.custom_source import CustomSource
from windrow.connectors.plugins import sink_class, source_class

__all__ = ["CustomSource", "sink_class", "source_class"]

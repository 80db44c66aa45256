"""Finds the sources and sinks that installed packages bring.

A package names its classes in its entry points, so that programs get them by a short name::

    [project.entry-points."windrow.sources"]
    mqtt = "windrow_mqtt:MqttSource"

    [project.entry-points."windrow.sinks"]
    mqtt = "windrow_mqtt:MqttSink"
"""

from __future__ import annotations

from typing import Any

from windrow.entry_points import load
from windrow.errors import InvalidArgumentError
from windrow.sinks import Sink
from windrow.sources import Source

# Any in this module: sources and sinks of elements of every type.


def source_class(name: str) -> type[Source[Any]]:
    """The source that a package registered under a name, to be called with what it needs.

    Args:
        name: The name of the entry point.

    Raises:
        InvalidArgumentError: If no installed package has one of that name, several have, or it cannot be loaded.
    """
    plugin = load("windrow.sources", name)
    if isinstance(plugin, type) and issubclass(plugin, Source):
        return plugin
    raise _no_class("source", name, plugin)


def sink_class(name: str) -> type[Sink[Any]]:
    """The sink that a package registered under a name, to be called with what it needs.

    Args:
        name: The name of the entry point.

    Raises:
        InvalidArgumentError: If no installed package has one of that name, several have, or it cannot be loaded.
    """
    plugin = load("windrow.sinks", name)
    if isinstance(plugin, type) and issubclass(plugin, Sink):
        return plugin
    raise _no_class("sink", name, plugin)


def _no_class(what: str, name: str, plugin: object) -> InvalidArgumentError:
    base = what.capitalize()
    return InvalidArgumentError(
        f"the entry point of a {what} names something else",
        given=f"{name}: {plugin!r}",
        expected=f"a class that is derived from windrow's {base}; engines run those derived from Custom{base}",
    )

"""Finds the sources and sinks that installed packages bring.

A package names its classes in its entry points, so that programs get them by a short name::

    [project.entry-points."windrow.sources"]
    mqtt = "windrow_mqtt:MqttSource"

    [project.entry-points."windrow.sinks"]
    mqtt = "windrow_mqtt:MqttSink"
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.sinks import Sink
from windrow.sources import Source

__all__ = ["sink_class", "source_class"]

# Any in this module: sources and sinks of elements of every type.


def source_class(name: str) -> type[Source[Any]]:
    """The source that a package registered under a name, to be called with what it needs.

    Args:
        name: The name of the entry point.

    Raises:
        InvalidArgumentError: If no installed package has one of that name, several have, or it cannot be loaded.
    """
    plugin = _loaded("source", name)
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
    plugin = _loaded("sink", name)
    if isinstance(plugin, type) and issubclass(plugin, Sink):
        return plugin
    raise _no_class("sink", name, plugin)


def _loaded(what: str, name: str) -> object:
    group = f"windrow.{what}s"
    there = entry_points(group=group)
    # A package may be on the path twice, as when it is installed to be edited.
    named = list({entry.value: entry for entry in there if entry.name == name}.values())
    if not named:
        raise InvalidArgumentError(
            f"no installed package brings a {what} of this name",
            given=name,
            expected=", ".join(sorted({entry.name for entry in there})) or None,
            hint=f"install the package; it names its classes in the entry points {group}",
        )
    if len(named) > 1:
        raise InvalidArgumentError(
            f"several packages bring a {what} of this name",
            given=f"{name}: {', '.join(sorted(map(_origin, named)))}",
            hint="import the class from its module",
        )
    try:
        return named[0].load()
    except Exception as error:  # a module of another package may raise anything
        raise InvalidArgumentError(
            f"the {what} of a package cannot be loaded",
            given=f"{name}: {_origin(named[0])}: {type(error).__name__}: {error}",
            hint="the original error is the cause",
        ) from error


def _origin(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name}"


def _no_class(what: str, name: str, plugin: object) -> InvalidArgumentError:
    base = what.capitalize()
    return InvalidArgumentError(
        f"the entry point of a {what} names something else",
        given=f"{name}: {plugin!r}",
        expected=f"a class that is derived from windrow's {base}; engines run those derived from Custom{base}",
    )

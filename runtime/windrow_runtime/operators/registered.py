"""Loads what a package has registered for a source or a sink, by the name of its connector."""

from __future__ import annotations

from typing import Any

from windrow.entry_points import load
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.sinks import Sink
from windrow.sources import Source


# Any: sources and sinks of elements of every type; each group says what its entries are.
def registered(group: str, end: Source[Any] | Sink[Any], where: str) -> Any:
    """Returns what a package has registered in a group of entry points for a source or a sink.

    Raises:
        UnsupportedOperationError: If no installed package has registered it, several have, or it cannot be loaded.
    """
    try:
        return load(group, type(end).connector_name)
    except InvalidArgumentError as error:
        raise UnsupportedOperationError(
            error.message,
            given=f"{error.given}, for {end.describe()}",
            expected=error.expected,
            where=where,
            hint=error.hint,
        ) from error

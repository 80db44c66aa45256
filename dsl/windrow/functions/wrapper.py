"""Defines the base of functions that wrap a user's function, and open and close with it."""

from __future__ import annotations

from typing import Any

from windrow.functions.rich import RichFunction, RuntimeContext


class Wrapper(RichFunction):
    """Wraps a function that the user wrote, which is opened and closed with it."""

    # Any: functions of every kind; each subclass takes one.
    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.function, RichFunction):
            self.function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, RichFunction):
            self.function.close()


# Any: whoever asks looks at attributes of functions of every kind.
def unwrapped(function: Any) -> Any:
    """The function that the user wrote."""
    while isinstance(function, Wrapper):
        function = function.function
    return function

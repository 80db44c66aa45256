"""Refuses an error policy of calls that have none, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from windrow.plan.location import refusal

# Any: a call of any kind.
F = TypeVar("F", bound=Callable[..., Any])

CALLS_NOTHING: Final = "leave it out: the call has no function of yours that could fail"
KEY_BEFORE: Final = "compute the key in map(function, on_error=tag) before, so that this call only reads it"


def no_on_error(hint: str) -> Callable[[F], F]:
    """Makes a call refuse an argument ``on_error``, where Python would say no more than that there is none.

    Args:
        hint: What to write instead.
    """

    def decorated(call: F) -> F:
        @wraps(call)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if "on_error" in kwargs:
                raise refusal(
                    f"{call.__name__} has no on_error",
                    given=f"on_error={kwargs['on_error']!r}",
                    expected="a call without it",
                    hint=hint,
                )
            return call(*args, **kwargs)

        return cast(F, checked)  # which takes and gives what the call does

    return decorated

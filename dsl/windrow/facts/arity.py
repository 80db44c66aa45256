"""Tells whether a function can be called with the arguments that windrow gives it."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, MethodType


def unfit_signature(function: object, count: int) -> str | None:
    """The signature of a function that certainly cannot be called with that many arguments.

    Only functions of Python, their methods and partial functions say for sure; wrappers may take anything.

    Args:
        function: Anything.
        count: How many arguments it is given, by position.

    Returns:
        The signature, such as ``lambda(a, b)``; None where the call may succeed.
    """
    innermost = function
    while isinstance(innermost, functools.partial):
        innermost = innermost.func
    if isinstance(innermost, MethodType) and type(innermost) is MethodType:
        innermost = innermost.__func__
    # Proxies and mocks say that they are of the class of what they stand for.
    if type(innermost) is not FunctionType or "__signature__" in vars(innermost) or not callable(function):
        return None
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # Python cannot tell it
        return None
    try:
        signature.bind(*[None] * count)
    except TypeError:
        shown = [
            each if each.default is each.empty else each.replace(default=...) for each in signature.parameters.values()
        ]
        text = str(signature.replace(parameters=shown, return_annotation=signature.empty)).replace("Ellipsis", "...")
        return f"{innermost.__name__.strip('<>')}{text}"
    return None

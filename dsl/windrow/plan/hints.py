"""Resolves annotations, also those that name classes of the function around.

Under ``from __future__ import annotations`` an annotation is a text, and ``typing.get_type_hints`` looks its names up
in the module alone. A class that was made inside a function is no name of the module. While a plan is built, that
function is as a rule still running, so its variables are found in its frame; else some are found in closures.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, MethodType, ModuleType

import typing_extensions

from windrow.calls.attributes import attribute_of
from windrow.facts.code import closure_of

# An annotation may be any expression.
_UNRESOLVED = Exception


def resolved_hints(owner: object, *, include_extras: bool = False, known: object | None = None) -> dict[str, object]:
    """The annotations of a function or of a class, by name, as types.

    Args:
        owner: The function, method or class.
        include_extras: Whether ``Annotated``, ``Required`` and the like stay.
        known: A type that annotations may name, such as that of the elements upstream.

    Returns:
        Those that can be resolved.
    """
    target: Callable[..., object] = owner  # type: ignore[assignment]  # get_type_hints takes all that has annotations
    try:
        return dict(typing_extensions.get_type_hints(target, include_extras=include_extras))
    except _UNRESOLVED:
        pass  # all together cannot be resolved, and some of them may
    hints: dict[str, object] = {}
    for annotated in _annotated(owner):
        try:
            annotations = inspect.get_annotations(annotated)  # type: ignore[arg-type]  # as above
        except _UNRESOLVED:
            continue  # it cannot be said what this one is annotated with
        names = _names_around(annotated, known)
        for name, annotation in annotations.items():
            try:
                hints[name] = _resolved(annotation, _globals_of(annotated), names, include_extras)
            except _UNRESOLVED:
                hints.pop(name, None)
    return hints


def _annotated(owner: object) -> Iterator[object]:
    """Yields the objects that have annotations: a class and its bases, the bases first, or a function."""
    if isinstance(owner, functools.partial):
        yield from _annotated(owner.func)
    elif isinstance(owner, type):
        yield from (kind for kind in reversed(owner.__mro__) if "__annotations__" in vars(kind))
    else:
        yield inspect.unwrap(owner) if callable(owner) else owner


def _resolved(annotation: object, module: dict[str, object], names: dict[str, object], include_extras: bool) -> object:
    class holder:  # noqa: N801  a class may have Final and ClassVar, of which a function knows nothing
        pass

    holder.__annotations__ = {"it": annotation}
    return typing_extensions.get_type_hints(holder, module, names, include_extras=include_extras)["it"]


def _globals_of(owner: object) -> dict[str, object]:
    function = _function_of(owner)
    if function is not None:
        return function.__globals__
    module = owner if isinstance(owner, ModuleType) else sys.modules.get(attribute_of(owner, "__module__") or "")
    return {} if module is None else vars(module)


def _function_of(owner: object) -> FunctionType | None:
    if isinstance(owner, MethodType):
        owner = owner.__func__
    return owner if isinstance(owner, FunctionType) else None


def _names_around(owner: object, known: object | None) -> dict[str, object]:
    """The variables of the functions around, where they can be had; inner ones hide outer ones."""
    names: dict[str, object] = {}
    around = _qualified_names_around(owner)
    for class_ in _classes_in(known):
        if set(_qualified_names_around(class_)) & set(around):
            names[class_.__name__] = class_
    module = _globals_of(owner)
    for frame in reversed(list(_frames())):
        if frame.f_globals is module and frame.f_code.co_qualname in around:
            names.update(frame.f_locals)
    function = _function_of(owner)
    if function is not None:
        names.update(closure_of(function))
    if isinstance(owner, type):
        names.setdefault(owner.__name__, owner)
    return names


def _qualified_names_around(owner: object) -> list[str]:
    """``["f", "f.<locals>.g"]`` for ``f.<locals>.g.<locals>.h``."""
    names = str(attribute_of(owner, "__qualname__", "")).split(".<locals>.")[:-1]
    return [".<locals>.".join(names[:end]) for end in range(1, len(names) + 1)]


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    while frame is not None:
        yield frame
        frame = frame.f_back


def _classes_in(type_form: object | None) -> Iterator[type]:
    if isinstance(type_form, type):
        yield type_form
    for argument in typing.get_args(type_form):
        yield from _classes_in(argument)

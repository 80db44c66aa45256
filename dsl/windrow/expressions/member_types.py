"""Says what annotations, and Python's own classes, tell of the types of attributes, items, methods and operators."""

from __future__ import annotations

import enum
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any, ClassVar, Final, Literal, Union

from windrow.expressions.built_in import ATTRIBUTE_TYPES, COMPARISONS, METHOD_TYPES, OPERATOR_TYPES
from windrow.expressions.generics import arguments_of, class_of, is_open, solved, substituted, variables_of
from windrow.plan.fitting import options_of, widest
from windrow.plan.hints import resolved_hints
from windrow.plan.records import has_generated, is_named_tuple_class, is_users_method

__all__ = [
    "attribute_type",
    "binary_type",
    "called_type",
    "declared_type",
    "item_type",
    "iterated_type",
    "kinds_of",
    "made_by_class",
    "method_type",
    "of_each",
    "present",
    "record_type",
    "sliced_type",
    "united",
]

# Any in this module: classes and types of every kind.

_PLAIN_MODULES: Final = frozenset({"builtins", "collections", "datetime", "decimal", "enum", "fractions", "uuid"})
_COMPARING: Final = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def of_each(kind: object | None, find: Callable[[object], object | None]) -> object | None:
    """The type that ``find`` says for the values of a type: for a union that of all its members; None: not known."""
    return united([find(option) for option in kinds_of(kind)])


def kinds_of(kind: object | None) -> list[object]:
    """The types that values of a type may have; a literal is of the type of its value. Empty: it is not known."""
    options = [] if kind is None else options_of(kind)
    return [each for kind in options for each in (map(type, _literals(kind)) if _literals(kind) else (kind,))]


def _literals(kind: object) -> tuple[object, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def united(kinds: Sequence[object | None]) -> object | None:
    """The type of values that are each of one of some types; None where one of these is not known.

    Tuples of as many parts are one tuple, whose parts are of any of the types. An empty list is a list of any type.
    """
    if not kinds or any(kind is None for kind in kinds):
        return None
    if len(kinds) > 1:
        kinds = [kind for kind in kinds if kind != list[typing.Never]] or kinds[:1]
    tuples = [kind for kind in kinds if typing.get_origin(kind) is tuple and Ellipsis not in typing.get_args(kind)]
    parts = [typing.get_args(kind) for kind in tuples]
    if len(tuples) > 1 and len({len(each) for each in parts}) == 1 and parts[0]:
        together = tuple.__class_getitem__(tuple([united(column) for column in zip(*parts, strict=True)]))
        kinds = [together, *(kind for kind in kinds if kind not in tuples)]
    return widest(kinds)


def present(kind: object | None) -> object | None:
    """The type of the values that are there: ``X`` for ``X | None``, and ``Never`` where they are all None."""
    if kind is None:
        return None
    others = [option for option in _members(kind) if option is not type(None)]
    return united(others) if others else typing.Never


def _members(kind: object) -> tuple[object, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)


_UNIONS: Final = (Union, type(int | None))


def attribute_type(kind: object | None, name: str) -> object | None:
    """The type of an attribute of values of a type; None where annotations do not say."""
    return of_each(kind, lambda option: _attribute(option, name))


def _attribute(kind: object, name: str) -> object | None:
    owner, attribute = _found(kind, name)
    if owner is None:
        return _of_enum(kind, name)
    if isinstance(attribute, property | functools.cached_property):
        getter = attribute.fget if isinstance(attribute, property) else attribute.func
        return _known(kind, owner, resolved_hints(getter).get("return"))
    if inspect.isroutine(attribute):
        return None
    built_in = ATTRIBUTE_TYPES.get((owner, name))
    return built_in or _known(kind, owner, resolved_hints(owner).get(name)) or _of_enum(kind, name)


def _of_enum(kind: object, name: str) -> object | None:
    if not (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return None
    if name == "name":
        return str
    return united([type(each.value) for each in kind]) if name == "value" else None


def _found(kind: object, name: str) -> tuple[type | None, object]:
    """The class, of a type or a base of it, that says what an attribute is, and what it has of that name."""
    plain = class_of(kind)
    for owner in () if plain is None else plain.__mro__:
        if name in vars(owner) or name in _annotations(owner):
            return owner, vars(owner).get(name)
    return None, None


def _annotations(owner: type | ModuleType) -> Mapping[str, object]:
    try:
        return inspect.get_annotations(owner)
    except Exception:
        return {}  # an annotation may be any expression


def _known(kind: object, owner: type, hint: object) -> object | None:
    """What an annotation in a class says of values of a type; None where it does not say it for sure."""
    hint = _variable_type(hint)
    if hint is typing.Self:
        return kind
    kind_of_hint = substituted(hint, variables_of(kind, owner))
    # Type variables say nothing here, and neither does Any.
    parameters: tuple[object, ...] = getattr(kind_of_hint, "__parameters__", ())
    return None if kind_of_hint is Any or isinstance(kind_of_hint, typing.TypeVar) or parameters else kind_of_hint


def declared_type(holder: type | ModuleType, name: str) -> object | None:
    """The type that the annotation of a variable in a class or a module says; ``Any`` where that is no type for sure.

    None: it has no annotation, or one that says no type, as ``Final`` alone.
    """
    owners = holder.__mro__ if isinstance(holder, type) else (holder,)
    owner = next((each for each in owners if name in vars(each) or name in _annotations(each)), None)
    if owner is None or name not in _annotations(owner):
        return None
    hint = _variable_type(resolved_hints(owner).get(name, Any))
    if hint is None or not isinstance(holder, type):
        return hint
    return attribute_type(holder, name) or Any


def _variable_type(hint: object) -> object | None:
    """The type in an annotation of a variable: that of ``Final[int]`` is ``int``, and ``Final`` alone says none."""
    while typing.get_origin(hint) in _QUALIFIERS:
        hint = next(iter(typing.get_args(hint)), None)
    return None if hint in _QUALIFIERS else hint


_QUALIFIERS: Final = (ClassVar, typing.Final)


def item_type(kind: object | None, key: object | None, key_type: object | None = None) -> object | None:
    """The type of an item of values of a type.

    Args:
        kind: The type.
        key: The index or the key, where it is a constant.
        key_type: The type of the key.
    """
    return of_each(kind, lambda option: _item(option, key, key_type))


def _item(kind: object, key: object | None, key_type: object | None) -> object | None:
    if typing.is_typeddict(class_of(kind)):
        owner = class_of(kind)
        assert owner is not None, "a class of dicts"
        return _known(kind, owner, resolved_hints(owner).get(key)) if isinstance(key, str) else None
    if _is_users(kind, "__getitem__"):
        return _method(kind, "__getitem__", ())
    if class_of(kind) in (str, bytes):
        return (str if kind is str else int) if key_type is int else None
    mapping = _base_of(kind, Mapping)
    if mapping is not None:
        return _definite(mapping[-1]) if len(mapping) == 2 else None
    parts = _parts(kind)
    if parts is not None:
        return _definite(parts[key]) if isinstance(key, int) and -len(parts) <= key < len(parts) else None
    return _iterated(kind) if key_type is int and _is_a(kind, Sequence) else None


def _is_users(kind: object, name: str) -> bool:
    """Whether a method is none of Python's own collections."""
    owner, _ = _found(kind, name)
    return owner is not None and owner.__module__ not in _PLAIN_MODULES | _COLLECTIONS


def sliced_type(kind: object | None) -> object | None:
    """The type of a slice of values of a type."""

    def of(option: object) -> object | None:
        is_plain = class_of(option) in (str, bytes, list) or (class_of(option) is tuple and _parts(option) is None)
        return option if is_plain else None

    return of_each(kind, of)


def iterated_type(kind: object | None, place: int | None = None) -> object | None:
    """The type of what values of a type are iterated as; ``place`` counts from the first."""

    def of(option: object) -> object | None:
        parts = _parts(option)
        if parts is not None:
            return _definite(parts[place]) if place is not None and place < len(parts) else None
        return str if option is str else _iterated(option)

    return of_each(kind, of)


def _parts(kind: object) -> tuple[object, ...] | None:
    """The types of the parts of a tuple of a fixed number of them; None: it is none."""
    plain = class_of(kind)
    if plain is None or not issubclass(plain, tuple):
        return None
    if is_named_tuple_class(plain):
        names: tuple[str, ...] = getattr(plain, "_fields", ())
        return tuple([_attribute(kind, name) for name in names])
    arguments = arguments_of(kind, tuple)
    return None if not arguments or Ellipsis in arguments else arguments


def _iterated(kind: object) -> object | None:
    plain = class_of(kind)
    if plain is None or not issubclass(plain, Iterable):
        return None
    if _is_users(kind, "__iter__"):
        return _iterated(_method(kind, "__iter__", ()))
    for base in plain.__mro__:
        arguments = arguments_of(kind, base)
        if arguments:
            # The items of a mapping are its keys.
            return _definite(arguments[0]) if base.__module__ in _COLLECTIONS else None
    return None


_COLLECTIONS: Final = frozenset({"builtins", "collections", "collections.abc"})


def _base_of(kind: object, base: type) -> tuple[object, ...] | None:
    """The type arguments of a collection, if it is one of a kind."""
    plain = class_of(kind)
    if plain is None or not issubclass(plain, base):
        return None
    arguments = [arguments_of(kind, each) for each in plain.__mro__ if each.__module__ in _COLLECTIONS]
    return next((each for each in arguments if each), ())


def _is_a(kind: object, base: type) -> bool:
    plain = class_of(kind)
    return plain is not None and issubclass(plain, base)


def _definite(kind: object | None) -> object | None:
    return None if kind is Any or isinstance(kind, typing.TypeVar) else kind


def method_type(kind: object | None, name: str, arguments: Sequence[object | None] = ()) -> object | None:
    """The type of what a method of values of a type returns; None where annotations do not say."""
    return of_each(kind, lambda option: _method(option, name, arguments))


def _method(kind: object, name: str, arguments: Sequence[object | None]) -> object | None:
    plain = class_of(kind)
    if plain is not None and name == "_replace" and is_named_tuple_class(plain):
        return kind if not is_users_method(plain, name) or "_replace" in vars(plain) else None
    if name in ("get", "copy") and plain is dict and typing.get_args(kind):
        return kind if name == "copy" else _got(typing.get_args(kind)[1], arguments)
    owner, method = _found(kind, name)
    if owner is None:
        return None
    built_in = METHOD_TYPES.get((owner, name))
    if built_in is not None:
        return built_in
    if isinstance(method, staticmethod | classmethod):
        method = method.__func__
    return _known(kind, owner, _annotated_result(method))


def _got(value: object, arguments: Sequence[object | None]) -> object | None:
    """The type of what ``get`` of a dict gives."""
    if len(arguments) not in (1, 2) or is_open(value):
        return None
    return united([value, type(None) if len(arguments) == 1 else arguments[1]])


def _annotated_result(function: object) -> object | None:
    if not isinstance(function, FunctionType | MethodType) or inspect.iscoroutinefunction(function):
        return None
    return resolved_hints(function).get("return")


def called_type(function: object) -> object | None:
    """The annotated type of what a function returns, where it is the same for all arguments; None: not known."""
    kind = _annotated_result(function)
    return None if kind is None or is_open(kind) else kind


def made_by_class(kind: type) -> object | None:
    """The type of what a call of a class gives; None where that is not its instances alone."""
    # list(...) is of no definite type, as any other call of a class with type arguments.
    parameters: tuple[object, ...] = getattr(kind, "__parameters__", ())
    if kind is type or "__class_getitem__" in vars(kind) or parameters:
        return None
    if is_users_method(type(kind), "__call__"):
        return None
    if isinstance(kind, enum.EnumType):
        return None if is_users_method(kind, "_missing_") else kind
    definer = next(base for base in kind.__mro__ if "__new__" in vars(base))
    is_named_tuple = kind.__bases__[0] is tuple and hasattr(kind, "_fields")
    if is_named_tuple or definer.__module__ in _PLAIN_MODULES or not is_users_method(kind, "__new__"):
        return kind
    return kind if resolved_hints(kind.__new__).get("return") in (kind, typing.Self) else None


def record_type(target: type, fields: Sequence[tuple[str, object | None]]) -> object | None:
    """The type of a record of a class, of the types of its fields: a generic class gets its arguments from them."""
    parameters: tuple[object, ...] = getattr(target, "__parameters__", ())
    if not parameters:
        return target
    variables: dict[object, object] = {}
    hints = resolved_hints(target)
    for name, kind in fields:
        declared = hints.get(name)
        if kind is None and is_open(declared):
            return None
        solved(declared, kind, variables)
    if any(is_open(variables.get(each, Any)) for each in parameters):
        return None
    generic: Any = target
    solved_type: object = generic[tuple([variables[each] for each in parameters])]
    return solved_type


def binary_type(symbol: str, left: object | None, right: object | None) -> object | None:
    """The type of what an operator gives between values of two types; None where it is not known."""
    return of_each(left, lambda one: of_each(right, lambda other: _binary(symbol, one, other)))


def _binary(symbol: str, left: object, right: object) -> object | None:
    if symbol in COMPARISONS:
        return bool if _compares(left, symbol) and _compares(right, symbol) else None
    if symbol == "%" and left is str:
        return str
    if symbol == "+" and left == right and typing.get_origin(left) is list:
        return left
    numbers = [int if kind is bool else kind for kind in (left, right)]
    return OPERATOR_TYPES.get((symbol, numbers[0], numbers[1]))


def _compares(kind: object, symbol: str) -> bool:
    """Whether comparisons of values of a type with others give nothing but True and False."""
    method = _COMPARING[symbol]
    owner, comparison = _found(kind, method)
    if owner is None:
        return False
    if owner.__module__ in _PLAIN_MODULES or not is_users_method(owner, method) or has_generated(owner, method):
        return True
    return _annotated_result(comparison) is bool

"""Says what annotations, and Python's own classes, tell of the types of attributes, items, methods and operators."""

from __future__ import annotations

import enum
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar, Final, Literal, Union

from windrow.expressions.built_in import ATTRIBUTE_TYPES, COMPARISONS, METHOD_TYPES, OPERATOR_TYPES
from windrow.expressions.generics import arguments_of, class_of, is_open, solved, substituted, variables_of
from windrow.plan.fitting import options_of, widest
from windrow.plan.hints import resolved_hints
from windrow.plan.records import has_generated, is_named_tuple_class, is_users_method

# Any in this module: classes and types of every kind.

_PLAIN_MODULES: Final = frozenset({"builtins", "collections", "datetime", "decimal", "enum", "fractions", "uuid"})
_COMPARING: Final = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


def of_each(type_form: object | None, find: Callable[[object], object | None]) -> object | None:
    """Applies ``find`` to a type, or to each member of a union; the union of the results, None if one is not known."""
    return united([find(option) for option in _kinds_of(type_form)])


def _kinds_of(kind: object | None) -> list[object]:
    """Returns the members of a union, or the type alone, with the types of literals' values; empty: not known."""
    options = [] if kind is None else options_of(kind)
    return [each for kind in options for each in (map(type, _literals(kind)) if _literals(kind) else (kind,))]


def _literals(type_form: object) -> tuple[object, ...]:
    return typing.get_args(type_form) if typing.get_origin(type_form) is Literal else ()


def united(kinds: Sequence[object | None]) -> object | None:
    """The union of some types; None if one of these is not known.

    Tuples of as many parts are one tuple, whose parts are of any of the types. An empty list is a list of any type.
    """
    if not kinds or any(kind is None for kind in kinds):
        return None
    if len(kinds) > 1:
        kinds = [kind for kind in kinds if kind != list[typing.Never]] or kinds[:1]
    tuples = [kind for kind in kinds if typing.get_origin(kind) is tuple and Ellipsis not in typing.get_args(kind)]
    item_types = [typing.get_args(kind) for kind in tuples]
    if len(tuples) > 1 and len({len(each) for each in item_types}) == 1 and item_types[0]:
        together = tuple.__class_getitem__(tuple([united(column) for column in zip(*item_types, strict=True)]))
        kinds = [together, *(kind for kind in kinds if kind not in tuples)]
    return widest(kinds)


def present(type_form: object | None) -> object | None:
    """A type without None: ``X`` for ``X | None``, and ``Never`` for None alone."""
    if type_form is None:
        return None
    others = [option for option in _members(type_form) if option is not type(None)]
    return united(others) if others else typing.Never


def _members(type_form: object) -> tuple[object, ...]:
    return typing.get_args(type_form) if typing.get_origin(type_form) in _UNIONS else (type_form,)


_UNIONS: Final = (Union, type(int | None))


def attribute_type(type_form: object | None, name: str) -> object | None:
    """The type of an attribute of values of a type; None where annotations do not say."""
    return of_each(type_form, lambda option: _attribute(option, name))


def _attribute(type_form: object, name: str) -> object | None:
    owner, attribute = _defining_class(type_form, name)
    if owner is None:
        return _of_enum(type_form, name)
    if isinstance(attribute, property | functools.cached_property):
        getter = attribute.fget if isinstance(attribute, property) else attribute.func
        return _known(type_form, owner, resolved_hints(getter).get("return"))
    if inspect.isroutine(attribute):
        return None
    built_in = ATTRIBUTE_TYPES.get((owner, name))
    return built_in or _known(type_form, owner, resolved_hints(owner).get(name)) or _of_enum(type_form, name)


def _of_enum(type_form: object, name: str) -> object | None:
    if not (isinstance(type_form, type) and issubclass(type_form, enum.Enum)):
        return None
    if name == "name":
        return str
    return united([type(each.value) for each in type_form]) if name == "value" else None


def _defining_class(type_form: object, name: str) -> tuple[type | None, object]:
    """Finds the class, among a type and its bases, that defines or annotates an attribute, and its value there."""
    plain = class_of(type_form)
    for owner in () if plain is None else plain.__mro__:
        if name in vars(owner) or name in _annotations(owner):
            return owner, vars(owner).get(name)
    return None, None


def _annotations(owner: type) -> Mapping[str, object]:
    try:
        return inspect.get_annotations(owner)
    except Exception:
        return {}  # an annotation may be any expression


def _known(type_form: object, owner: type, hint: object) -> object | None:
    """Resolves an annotation of a class for a type; None where it does not give one type for sure."""
    if typing.get_origin(hint) in _QUALIFIERS:
        (hint,) = typing.get_args(hint)
    if hint in _QUALIFIERS:
        return None
    if hint is typing.Self:
        return type_form
    kind_of_hint = substituted(hint, variables_of(type_form, owner))
    # Type variables say nothing here, and neither does Any.
    parameters: tuple[object, ...] = getattr(kind_of_hint, "__parameters__", ())
    return None if kind_of_hint is Any or isinstance(kind_of_hint, typing.TypeVar) or parameters else kind_of_hint


_QUALIFIERS: Final = (ClassVar, typing.Final)


def item_type(type_form: object | None, key: object) -> object | None:
    """The type of the item of values of a type at an index, or for a key."""
    return of_each(type_form, lambda option: _item(option, key))


def _item(type_form: object, key: object) -> object | None:
    plain = class_of(type_form)
    if plain is None:
        return None
    if typing.is_typeddict(plain):
        return _known(type_form, plain, resolved_hints(plain).get(key)) if isinstance(key, str) else None
    owner, _ = _defining_class(type_form, "__getitem__")
    if owner is None or owner.__module__ not in _COLLECTIONS:
        return None
    if issubclass(plain, tuple) and (parts := _parts(type_form)) is not None:
        return _definite(parts[key]) if isinstance(key, int) and -len(parts) <= key < len(parts) else None
    bases = [base for base in plain.__mro__ if base.__module__ in _COLLECTIONS]
    arguments = next(filter(None, [arguments_of(type_form, base) for base in bases]), ())
    if issubclass(plain, Mapping):
        return _definite(arguments[-1]) if len(arguments) == 2 else None
    if not isinstance(key, int) or not issubclass(plain, Sequence):
        return None
    items: Mapping[object, object] = {str: str, bytes: int}
    return _definite(arguments[0]) if arguments else items.get(plain)


def _parts(type_form: object) -> tuple[object, ...] | None:
    """The types of the parts of a tuple of a fixed number of them; None: it is none."""
    plain = class_of(type_form)
    if plain is not None and is_named_tuple_class(plain):
        names: tuple[str, ...] = getattr(plain, "_fields", ())
        return tuple([_attribute(type_form, name) for name in names])
    arguments = arguments_of(type_form, tuple)
    return None if not arguments or Ellipsis in arguments else arguments


_COLLECTIONS: Final = frozenset({"builtins", "collections", "collections.abc"})


def _definite(type_form: object | None) -> object | None:
    return None if type_form is Any or isinstance(type_form, typing.TypeVar) else type_form


def method_type(type_form: object | None, name: str) -> object | None:
    """The type of what a method of texts, numbers or times returns; None: values of the type have no such method."""
    return of_each(type_form, lambda option: METHOD_TYPES.get((_defining_class(option, name)[0], name)))


def list_type(kinds: Sequence[object | None]) -> object | None:
    """The type of a list of values of some types; None where they have no type in common, but for None."""
    # Any: the type of nothing, which type checkers take for no value.
    nothing: Any = typing.Never
    item = united(kinds) if kinds else nothing
    several = sum(option is not type(None) for option in _kinds_of(item)) > 1
    return None if item is None or several else list.__class_getitem__(item)


def record_type(target: type, fields: Sequence[tuple[str, object | None]]) -> object | None:
    """Returns the type of a record by the types of its fields, which give the arguments of a generic class."""
    parameters: tuple[object, ...] = getattr(target, "__parameters__", ())
    if not parameters:
        return target
    variables: dict[object, object] = {}
    hints = resolved_hints(target)
    for name, type_form in fields:
        declared = hints.get(name)
        if type_form is None and is_open(declared):
            return None
        solved(declared, type_form, variables)
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


def _compares(type_form: object, symbol: str) -> bool:
    """Whether comparisons of values of a type with others give nothing but True and False."""
    method = _COMPARING[symbol]
    owner, comparison = _defining_class(type_form, method)
    if owner is None:
        return False
    if owner.__module__ in _PLAIN_MODULES or not is_users_method(owner, method) or has_generated(owner, method):
        return True
    return isinstance(comparison, FunctionType) and resolved_hints(comparison).get("return") is bool

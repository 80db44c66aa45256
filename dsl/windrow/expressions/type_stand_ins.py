"""Stands for what a function finds around it, where only the types of what the function gives are asked for.

Nothing that a function would call is called: its annotation says the type, or Python's own table does.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import inspect
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, GenericAlias, MethodType, ModuleType
from typing import Any, Final

from windrow.expressions.built_in import FUNCTION_TYPES
from windrow.expressions.member_types import (
    called_type,
    declared_type,
    iterated_type,
    kinds_of,
    made_by_class,
    method_type,
    of_each,
    record_type,
    united,
)
from windrow.expressions.recorder import (
    SCALARS,
    Decisions,
    ItemRecorder,
    Recorder,
    RefusedError,
    is_recorder,
    typed_expression,
)
from windrow.expressions.surroundings import Surroundings
from windrow.expressions.tree import Constant
from windrow.expressions.typed_nodes import IsInstance, IsNone, Rule
from windrow.plan.records import is_record_class, making_hook

__all__ = ["TypeStandIns"]

# Any in this module: values of variables of every type.

_CONSTANTS: Final = (
    *(bytes, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    *(decimal.Decimal, enum.Enum, uuid.UUID),
)
"""Classes of values that never change, beside the scalars."""

_VALUES: Final = (*_CONSTANTS, bool, int, float, str, type(None))

_SAME: Final = (copy.copy, copy.deepcopy, dataclasses.replace)
"""Functions that give something of the type of their first argument."""


class TypeStandIns:
    """Makes what stands for the values of variables, in calls of a function that make these decisions."""

    def __init__(self, decisions: Decisions, around: Surroundings) -> None:
        self._decisions = decisions
        self._around = around
        self.same = _Same(decisions)

    def __call__(self, function: FunctionType, name: str, value: Any) -> object:
        """Returns what stands for the value of a variable; None: what stands for it in expressions does, if any."""
        declared = _declared(function, name)
        if declared is not None or issubclass(type(value), _VALUES):
            return self._variable(name, value, declared)
        return self.called(name, value)

    def constant(self, value: object) -> object:
        """Returns what stands for a constant of the code: a text would format proxies, and look for them in itself."""
        return ItemRecorder(Constant(value), self._decisions) if isinstance(value, str) else value

    def _variable(self, name: str, value: Any, declared: object | None) -> Recorder:
        kind: type[Any] = type(value)
        if declared is None and value is not None and kind in SCALARS:
            return self._decisions.recorder(ItemRecorder, Constant(value, name))
        # A variable that is None now will be something else as a rule.
        variable_type = kind if declared is None and value is not None else declared
        return self._decisions.result(name, lambda _: variable_type)

    def called(self, name: str, value: Any) -> object:
        """Returns what stands for a class, a function or a module; None: as above."""
        if isinstance(value, ModuleType):
            return _Module(self, value)
        if value is min or value is max:
            return partial(self._extreme, value)
        if value is len or value is abs:
            return None
        if value is isinstance:
            return self._isinstance
        if value is round:
            return partial(self.result, "round", _rounded)
        if any(value is each for each in _SAME) or _replaces_fields(value):
            return partial(self.result, name, lambda kinds: kinds[0])
        if isinstance(value, type):
            return _Class(self, value, _OF_ITEMS.get(value) if type(value) is type else None)
        if isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
            is_built_in = isinstance(value, BuiltinFunctionType)
            if is_built_in and value in _OF_ITEMS:
                return partial(self.result, name, _OF_ITEMS[value])
            result = FUNCTION_TYPES.get(value) if is_built_in else called_type(value)
            return None if result is None else partial(self.result, name, lambda _: result)
        # An object of a class of the user's has the attributes and methods that its class says.
        kind = type(value)
        is_collection = issubclass(kind, (dict, frozenset, list, set, tuple)) and not is_record_class(kind)
        return None if is_collection else self._variable(name, value, None)

    def read(self, read: Callable[[], Any]) -> Any:
        """Reads a value of a class, or of a module, and remembers it: another one may be of another type."""
        value = read()
        self._around.note(read, value, None)
        return value

    def member(self, name: str, value: Any, declared: object | None) -> object:
        """Returns what stands for the value of a class, or of a module, which its annotation may say."""
        is_declared = declared is not None and not hasattr(type(value), "__get__")
        is_value = is_declared or issubclass(type(value), _VALUES)
        stand_in = self._variable(name, value, declared) if is_value else self.called(name, value)
        if stand_in is None:
            raise RefusedError(f"uses {name}")
        return stand_in

    def result(self, name: str, rule: Rule, *args: object, **kwargs: object) -> Recorder:
        """Returns the proxy for what a call gives."""
        return self._decisions.result(name, rule, tuple(map(typed_expression, (*args, *kwargs.values()))))

    def _extreme(self, function: Callable[..., Any], *args: Any) -> object:
        """Compares values as ``min`` does, or returns the proxy for an item of the only one."""
        if len(args) == 1 and is_recorder(args[0]):
            return self.result(function.__name__, lambda kinds: iterated_type(kinds[0]), *args)
        return function(*args)

    def _isinstance(self, value: object, classes: object) -> bool:
        """Decides whether a value is of a class."""
        # Any: a class, or a tuple of classes, by what stands for them.
        choices: Any = classes if type(classes) is tuple else (classes,)
        kinds = tuple([each.__stands_for__ for each in choices if isinstance(each, _Class)])
        if not is_recorder(value) or len(kinds) < len(choices):
            raise RefusedError("asks isinstance of what it makes, or of no class")
        return self._decisions.decide(IsInstance(typed_expression(value), kinds))

    def __contains__(self, value: object) -> bool:
        """Decides whether a value is None, as code asks that was rewritten."""
        return self._decisions.decide(IsNone(typed_expression(value))) if is_recorder(value) else value is None

    def __rmatmul__(self, parts: object) -> Recorder:
        """Returns the proxy for a text that is made of values, as code asks that was rewritten."""
        return self.result("text", lambda _: str, parts)


class _Same:
    """Is asked whether two values are one object."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    def __contains__(self, both: tuple[object, object]) -> bool:
        if not any(map(is_recorder, both)):
            return both[0] is both[1]
        sides = tuple(map(typed_expression, both))
        return self._decisions.decide(typed_expression(self._decisions.result("is", lambda _: bool, sides)))


def _collected(kind: type[Any]) -> Rule:
    """The rule for a list, a set or a tuple of what something holds."""

    def rule(kinds: Sequence[object | None]) -> object | None:
        item = iterated_type(kinds[0]) if len(kinds) == 1 else None
        return None if item is None else GenericAlias(kind, (item, ...) if kind is tuple else (item,))

    return rule


def _summed(kinds: Sequence[object | None]) -> object | None:
    item = iterated_type(kinds[0]) if len(kinds) == 1 else None
    # The sum of nothing is 0.
    return int if item in (bool, int) else united([item, int]) if item in (float, decimal.Decimal) else None


_OF_ITEMS: Final[Mapping[object, Rule]] = {
    **{kind: _collected(kind) for kind in (frozenset, list, set, tuple)},
    all: lambda _: bool,
    any: lambda _: bool,
    sorted: _collected(list),
    sum: _summed,
}
"""Functions of what something holds."""


def _rounded(kinds: Sequence[object | None]) -> object | None:
    def of(kind: object) -> object | None:
        return int if kind is bool else kind if kind in (int, float, decimal.Decimal) else None

    rounded = of_each(kinds[0], of)
    if len(kinds) == 1 or kinds[1] is type(None):
        return None if rounded is None else int
    return rounded if kinds_of(kinds[1]) in ([int], [bool]) else None


def _replaces_fields(function: Any) -> bool:
    """Whether a function is that of msgspec that copies a Struct."""
    is_function = isinstance(function, BuiltinFunctionType)
    return is_function and (function.__module__, function.__name__) == ("msgspec.structs", "replace")


def _declared(function: FunctionType, name: str) -> object | None:
    """The annotation of a variable of a module; None: it has none, or is no such variable."""
    code, module = function.__code__, sys.modules.get(function.__globals__.get("__name__", ""))
    if module is None or vars(module) is not function.__globals__:
        return None
    is_global = name not in code.co_freevars and name not in code.co_varnames
    return declared_type(module, name) if is_global else None


class _Module:
    """Stands for a module: a function may use what is in it."""

    # No function that is tried reads such names: what a module of the user's has is never taken for these.
    __slots__ = ("__made__", "__stands_for__")

    def __init__(self, stand_ins: TypeStandIns, module: ModuleType) -> None:
        self.__made__, self.__stands_for__ = stand_ins, module

    def __getattr__(self, name: str) -> object:
        module = self.__stands_for__
        value = self.__made__.read(lambda: vars(module).get(name))
        return self.__made__.member(f"{module.__name__}.{name}", value, declared_type(module, name))


class _Class:
    """Stands for a class: a function may make instances of it, and use its constants and class methods."""

    # As above.
    __slots__ = ("__made__", "__rule__", "__stands_for__")

    def __init__(self, stand_ins: TypeStandIns, kind: type[Any], rule: Rule | None) -> None:
        self.__made__, self.__stands_for__ = stand_ins, kind
        self.__rule__ = rule  # says the type of what a call gives; None: the class does

    def __call__(self, *args: object, **kwargs: object) -> Recorder:
        kind, stand_ins = self.__stands_for__, self.__made__
        if self.__rule__ is not None:
            return stand_ins.result(kind.__name__, self.__rule__, *args, **kwargs)
        record = made_by_class(kind)
        if record is None and is_record_class(kind) and making_hook(kind) is None:
            bound = inspect.signature(kind).bind(*args, **kwargs).arguments
            names = list(bound)
            rule: Rule = lambda kinds: record_type(kind, list(zip(names, kinds, strict=True)))  # noqa: E731
            return stand_ins.result(kind.__name__, rule, *bound.values())
        return stand_ins.result(kind.__name__, lambda _: record, *args, **kwargs)

    def __getattr__(self, name: str) -> object:
        kind = self.__stands_for__
        shown = f"{kind.__name__}.{name}"
        attribute = self.__made__.read(lambda: inspect.getattr_static(kind, name, None))
        if isinstance(attribute, staticmethod | classmethod):
            result = method_type(kind, name)
        elif inspect.isroutine(attribute):
            bound = getattr(kind, name)
            result = FUNCTION_TYPES.get(bound) if kind.__module__ in sys.stdlib_module_names else None
        else:
            if _is_enum(kind):
                return self.__made__.member(shown, getattr(kind, name, None), None)
            return self.__made__.member(shown, attribute, declared_type(kind, name))
        return partial(self.__made__.result, shown, lambda _: result)


def _is_enum(kind: type[Any]) -> bool:
    return isinstance(kind, enum.EnumType)

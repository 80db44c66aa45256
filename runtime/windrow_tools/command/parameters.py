"""Reads values of the command line for the function that makes a pipeline, by the types of its parameters."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Final, Literal, Union
from uuid import UUID

from windrow.errors import InvalidArgumentError, similar_name

_UNITS: Final = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)? ?(?:ms|s|min|m|h|d) ?)+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|min|m|h|d)")
_TRUTHS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that the command line sets, and what was typed. The name has underscores; None: no value was typed."""

    name: str
    text: str | None
    typed: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the function that makes a pipeline, and how a value of it is read.

    Attributes:
        name: Its name.
        read: Reads a value from text; raises a ValueError or an ArithmeticError for a text that is none.
        form: What a value looks like.
        is_needed: Whether it has no default.
        is_list: Whether it takes several values.
        is_flag: Whether its name alone says ``True``.
    """

    name: str
    read: Callable[[str], object]
    form: str
    is_needed: bool
    is_list: bool = False
    is_flag: bool = False

    def __str__(self) -> str:
        text = f"--{self.name.replace('_', '-')}"
        text = text if self.is_flag else f"{text} {self.form}"
        text = f"{text} ..." if self.is_list else text
        return text if self.is_needed else f"[{text}]"


def settings_of(sets: Iterable[str], words: Sequence[str]) -> Iterator[Setting]:
    """Yields what ``--set name=value`` and the words after ``--`` set.

    Raises:
        InvalidArgumentError: If one of them has another form.
    """
    for typed in sets:
        name, equals, text = typed.partition("=")
        if not equals or not name.replace("-", "_").isidentifier():
            raise InvalidArgumentError(
                "a value is set by its name", given=f"--set {typed}", expected="--set NAME=VALUE"
            )
        yield Setting(name.replace("-", "_"), text, f"--set {typed}")
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name.replace("-", "_").isidentifier():
            raise InvalidArgumentError(
                "what follows -- sets parameters of the pipeline", given=word, expected="--NAME VALUE"
            )
        has_value = not equals and bool(rest) and not rest[0].startswith("--")
        value = rest.pop(0) if has_value else text if equals else None
        yield Setting(name.replace("-", "_"), value, f"{word} {value}" if has_value else word)


def parameters_of(function: Callable[..., object]) -> list[Parameter] | None:
    """Returns the parameters of a function that values can be read for.

    Returns:
        The parameters; None if one that has no default is of a type that no text stands for, or has no name.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = []
    types = _types(function)
    for name, each in signature.parameters.items():
        is_named = each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}
        parameter = _parameter(name, types.get(name, str), each.default is each.empty) if is_named else None
        if parameter is not None:
            parameters.append(parameter)
        elif each.default is each.empty and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            return None
    return parameters


def _types(function: Callable[..., object]) -> dict[str, object]:
    """Returns the annotations of a function that can be evaluated: a file may import others for type checkers alone."""
    described: object = function
    while isinstance(described, partial):
        described = described.func
    if not hasattr(described, "__annotations__"):  # an object of a class with __call__
        described = vars(type(described)).get("__call__")
    types: dict[str, object] = {}
    for name, annotation in getattr(described, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        # Any name may be missing where only type checkers need it, and evaluating it may raise anything else.
        try:
            types |= typing.get_type_hints(alone, globalns=getattr(described, "__globals__", None))
        except Exception:
            types[name] = None
    return types


def _parameter(name: str, type_: object, is_needed: bool) -> Parameter | None:
    type_ = _without_none(type_)
    arguments = typing.get_args(type_)
    if arguments and typing.get_origin(type_) in {list, Sequence, Iterable}:
        item = _reader(arguments[0])
        return item and Parameter(name, *item, is_needed, is_list=True)
    reader = _reader(type_)
    return reader and Parameter(name, *reader, is_needed, is_flag=type_ is bool)


def _without_none(type_: object) -> object:
    """Returns the only other type of a union with None; any other type as it is."""
    is_union = typing.get_origin(type_) in {Union, UnionType}
    types = [each for each in typing.get_args(type_) if each is not NoneType] if is_union else []
    return types[0] if len(types) == 1 else type_


def _reader(type_: object) -> tuple[Callable[[str], object], str] | None:
    """Returns what reads a value of a type from text, and the form of the text; None: no text stands for one."""
    type_ = _without_none(type_)
    if typing.get_origin(type_) is Literal:
        values = {str(value): value for value in typing.get_args(type_)}
        return lambda text: _chosen(values, text), "|".join(values)
    if isinstance(type_, type) and issubclass(type_, Enum):
        members = dict(type_.__members__)
        return lambda text: _chosen(members, text), "|".join(members)
    return _READERS.get(type_) if isinstance(type_, type) else None


def _chosen(values: Mapping[str, object], text: str) -> object:
    if text not in values:
        raise ValueError(text)
    return values[text]


def _duration(text: str) -> timedelta:
    if not _DURATION.fullmatch(text):
        raise ValueError(text)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


_READERS: Final[Mapping[type, tuple[Callable[[str], object], str]]] = {
    str: (str, "TEXT"),
    int: (int, "INTEGER"),
    float: (float, "NUMBER"),
    bool: (lambda text: _chosen(_TRUTHS, text.lower()), "true|false"),
    date: (date.fromisoformat, "2026-01-31"),
    datetime: (datetime.fromisoformat, "2026-01-31T12:00:00Z"),
    time: (time.fromisoformat, "12:00"),
    timedelta: (_duration, "DURATION, such as 90s, 5min or 1h30min"),
    Decimal: (Decimal, "NUMBER"),
    Path: (Path, "PATH"),
    UUID: (UUID, "UUID"),
}


def values_of(parameters: Sequence[Parameter], settings: Iterable[Setting], where: str) -> dict[str, object]:
    """Returns the arguments of the function that makes a pipeline.

    Raises:
        InvalidArgumentError: If a name is no parameter, a text is no value of its type, a value is set twice, or a
            parameter without a default has none.
    """
    values: dict[str, object] = {}
    by_name = {parameter.name: parameter for parameter in parameters}
    expected = " ".join(map(str, parameters)) or "no parameters"
    for setting in settings:
        parameter = by_name.get(setting.name)
        if parameter is None:
            raise InvalidArgumentError(
                "the function that makes the pipeline has no such parameter",
                given=setting.typed,
                expected=expected,
                where=where,
                hint=similar_name(setting.name, by_name),
            )
        value = _read(parameter, setting, where)
        if parameter.is_list:
            values[parameter.name] = [*typing.cast("list[object]", values.get(parameter.name, [])), value]
        elif parameter.name in values:
            raise InvalidArgumentError("a parameter is set twice", given=setting.typed, where=where)
        else:
            values[parameter.name] = value
    missing = [parameter for parameter in parameters if parameter.is_needed and parameter.name not in values]
    if missing:
        raise InvalidArgumentError(
            "the function that makes the pipeline needs arguments",
            given=" ".join(f"{name}={value!r}" for name, value in values.items()) or "none",
            expected=" ".join(map(str, missing)),
            where=where,
            hint=f"add -- {missing[0]} to the command, or --set {missing[0].name}=VALUE",
        )
    return values


def _read(parameter: Parameter, setting: Setting, where: str) -> object:
    if setting.text is None and parameter.is_flag:
        return True
    try:
        if setting.text is None:
            raise ValueError("no value")
        return parameter.read(setting.text)
    except (ValueError, ArithmeticError) as error:  # an ArithmeticError: no decimal, or a duration beyond all
        raise InvalidArgumentError(
            f"this is no value of the parameter {parameter.name}",
            given=setting.typed,
            expected=parameter.form,
            where=where,
        ) from error

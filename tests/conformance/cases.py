"""Conformance files: how cases are read, and how their parts are asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, Union

from windrow.windows import GlobalWindow, TimeWindow

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
AnyWindow: TypeAlias = TimeWindow | GlobalWindow

# Remarks for the reader, allowed everywhere.
_REMARKS = frozenset({"note", "origin"})


class CaseError(Exception):
    """A case is not in the format, or asks for something that this runner does not know. It counts as failed."""


class Fields:
    """A JSON object whose fields are asked for by name and type. What nobody asked for is an error in :meth:`done`."""

    def __init__(self, data: Mapping[str, Json], what: str) -> None:
        self._data = data
        self._what = what
        self._asked: set[str] = set(_REMARKS)

    @property
    def data(self) -> Mapping[str, Json]:
        return self._data

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def _absent(self, name: str) -> bool:
        """Whether an optional field is left out; null says the same."""
        self._asked.add(name)
        return self._data.get(name) is None

    def raw(self, name: str) -> Json:
        self._asked.add(name)
        if name not in self._data:
            raise CaseError(f"{self._what}: {name!r} is missing")
        return self._data[name]

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and self._absent(name):
            return default
        value = self.raw(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "an integer", value)
        return value

    def integer_or_none(self, name: str) -> int | None:
        """The integer; None where it is null or absent."""
        if self._data.get(name) is None:
            self._asked.add(name)
            return None
        return self.integer(name)

    def number(self, name: str) -> float:
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number", value)
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        if default is not None and self._absent(name):
            return default
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        if default is not None and self._absent(name):
            return default
        value = self.raw(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def items(self, name: str, default: list[Json] | None = None) -> list[Json]:
        if default is not None and self._absent(name):
            return default
        value = self.raw(name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value

    def fields(self, name: str) -> Fields:
        return self._fields(name, self.raw(name))

    def fields_or_none(self, name: str) -> Fields | None:
        """The object; None where it is null or absent."""
        self._asked.add(name)
        value = self._data.get(name)
        return None if value is None else self._fields(name, value)

    def all_fields(self, name: str, default: list[Json] | None = None) -> list[Fields]:
        """The objects of a list."""
        items = self.items(name, default)
        return [self._fields(f"{name}[{number}]", item) for number, item in enumerate(items, start=1)]

    def window(self, name: str) -> AnyWindow:
        return to_window(self.raw(name))

    def windows(self, name: str) -> list[AnyWindow]:
        return [to_window(item) for item in self.items(name)]

    def done(self) -> None:
        """Complain of fields that nobody asked for: what is not understood is not to be passed over."""
        unknown = sorted(set(self._data) - self._asked)
        if unknown:
            raise CaseError(f"{self._what}: unknown {', '.join(map(repr, unknown))}")

    def _fields(self, name: str, value: Json) -> Fields:
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return Fields(value, f"{self._what}.{name}")

    def _wrong(self, name: str, expected: str, value: Json) -> CaseError:
        return CaseError(f"{self._what}: {name!r} must be {expected}, not {encode(value)}")


@dataclass(frozen=True)
class Case:
    """A case of a file."""

    file: str
    name: str
    kind: str
    body: Fields

    @classmethod
    def of(cls, file: str, number: int, body: Fields) -> Case:
        """The case that ``body`` describes, the ``number``-th of its file."""
        return cls(file, body.text("name", f"case {number}, without a name"), body.text("kind", "missing"), body)


def load(path: str) -> list[Case]:
    """The cases of a file."""
    try:
        content = decode(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CaseError(f"the file cannot be read: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
        raise CaseError('a file is {"suite": name, "cases": [case, ...]}')
    bodies = Fields(content, "file").all_fields("cases")
    return [Case.of(path, number, body) for number, body in enumerate(bodies, start=1)]


def decode(text: str) -> Json:
    """The value that JSON text stands for."""
    value: Json = json.loads(text)
    return value


def encode(value: Json) -> str:
    """JSON text that is the same for equal values: 3 and 3.0 are equal, 1 and true are not."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def _plain(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def to_window(value: Json) -> AnyWindow:
    """The window that JSON stands for."""
    if value == "global":
        return GlobalWindow()
    if isinstance(value, list) and len(value) == 2:
        start, end = value
        if isinstance(start, (int, float)) and isinstance(end, (int, float)):
            return TimeWindow(int(start), int(end))
    raise CaseError(f'a window is [start, end] or "global", not {encode(value)}')


def window_json(window: AnyWindow) -> Json:
    """The JSON that stands for a window."""
    return [window.start, window.end] if isinstance(window, TimeWindow) else "global"

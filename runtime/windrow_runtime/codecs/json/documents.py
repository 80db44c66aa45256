"""Splits a JSON text into values without regard to its lines: one array of records, or one record after the other.

The text is read in blocks, and no value may be longer than a line may be, so that memory is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_SPACES: Final = re.compile(r"[ \t\r\n]*")
_SCALAR_END: Final = re.compile(r"[ \t\r\n,\[\]{}\"]")
_BRACKET: Final = re.compile(r'["\[\]{}]')
_IN_STRING: Final = re.compile(r'["\\]')


class ValueText(NamedTuple):
    """The text of a value, or the fault for which the rest of the text cannot be read; with its line, from 1."""

    line: int
    text: str
    fault: str | None = None


class LongValueError(Exception):
    """A value is longer than the limit."""


def split_values(blocks: Iterable[str], longest: int) -> Iterator[ValueText]:
    """Splits a text, given in blocks, into its values; raises a :class:`LongValueError` for one that is too long."""
    return _Splitter(longest).split(blocks)


class _Splitter:
    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._line = 1
        self._begun: list[str] = []  # the parts so far of a value that began in an earlier block
        self._size = 0
        self._first_line = 0
        self._depth = 0
        self._state = "between"  # or "string", "brackets", "scalar"
        self._escaped = False  # whether the first sign of the next block is escaped
        self._array = "none"  # or what may follow in an array: "first", "value", "comma"

    def split(self, blocks: Iterable[str]) -> Iterator[ValueText]:
        """Yields the values."""
        for block in blocks:
            for value in self._values_in(block):
                yield value
                if value.fault is not None:
                    return
        if self._state == "scalar":
            yield ValueText(self._first_line, "".join(self._begun))
        elif self._state != "between":
            yield ValueText(self._first_line, "".join(self._begun)[:1000], "the text ends within a value")
        if self._array != "none" and self._state in ("between", "scalar"):
            yield ValueText(self._line, "", "the text ends within an array")

    def _values_in(self, text: str) -> Iterator[ValueText]:
        at = int(self._escaped)
        self._escaped = False
        start = counted = 0
        while True:
            if self._state == "between":
                match = _SPACES.match(text, at)
                at = at if match is None else match.end()
                if at >= len(text):
                    break
                self._line += text.count("\n", counted, at)
                counted = at
                fault = self._begin(text[at])
                if fault is not None:
                    yield ValueText(self._line, text[at : at + 1000], fault)
                    return
                start = at
                at += self._state != "scalar"
                continue
            end = self._end_of_value(text, at)
            if end is None:
                self._keep(text[start:])
                break
            self._keep(text[start:end])
            yield ValueText(self._first_line, "".join(self._begun))
            self._begun.clear()
            self._size = 0
            self._state = "between"
            start = at = end
        self._line += text.count("\n", counted)

    def _keep(self, text: str) -> None:
        self._begun.append(text)
        self._size += len(text)
        if self._size > self._longest:
            raise LongValueError

    def _begin(self, sign: str) -> str | None:
        """Takes a sign between values; returns what is wrong with it."""
        array = self._array
        if array == "comma" or (array == "first" and sign == "]"):
            if sign not in ",]":
                return "expected , or ] after a value of an array"
            self._array = "value" if sign == "," else "none"
            return None
        if array == "none" and sign == "[":
            self._array = "first"
            return None
        if sign in ",]}:":
            return f"expected a value, not {sign}"
        self._first_line = self._line
        if array != "none":
            self._array = "comma"
        self._depth = int(sign in "[{")
        self._state = "string" if sign == '"' else "brackets" if self._depth else "scalar"
        return None

    def _end_of_value(self, text: str, at: int) -> int | None:
        """Returns the end of the value that was begun; None: it goes on after the text."""
        while True:
            pattern = _IN_STRING if self._state == "string" else _BRACKET if self._state == "brackets" else _SCALAR_END
            match = pattern.search(text, at)
            if match is None:
                return None
            at, sign = match.end(), match.group()
            if self._state == "scalar":
                return match.start()
            if sign == "\\":
                at += 1
                self._escaped = at > len(text)
            elif sign == '"':
                if self._state == "string" and not self._depth:
                    return at
                self._state = "brackets" if self._state == "string" else "string"
            else:
                self._depth += 1 if sign in "[{" else -1
                if not self._depth:
                    return at

"""What flows through the pipelines of cases.

Fields are JSON text: a value of a case may be anything, while a record has columns of fixed types on every engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance.cases import CaseError, Json, decode, encode

NO_SCRIPT = "{}"


@dataclass(frozen=True)
class Element:
    """An element of a case, and beside it what scripted parts do with it."""

    key: str  # null without keys
    value: str
    script: str = NO_SCRIPT  # ``windows`` and ``merges`` of a scripted assigner, ``trigger`` of a scripted trigger

    @classmethod
    def of(cls, key: Json, value: Json, script: dict[str, Json] | None = None) -> Element:
        return cls(encode(key), encode(value), encode(script) if script else NO_SCRIPT)

    def part(self, name: str) -> Json:
        """A part of the script, or null."""
        script = decode(self.script)
        assert isinstance(script, dict)
        return script.get(name)


@dataclass(frozen=True)
class Record:
    """What the function of a case emits."""

    key: str  # null without keys
    value: str
    window: str = "null"  # unless the function reports it


def number(element: Element) -> int | float:
    """The value of an element for a function that calculates."""
    value = decode(element.value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CaseError(f"the function needs numbers, not {element.value}")
    return value

"""What a case expects beside what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.conformance.cases import Json, encode
from windrow.errors import InvalidArgumentError, UnsupportedOperationError


class Differences:
    """Collects what differed in one case, each with where it was found."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def equal(self, where: str, expected: Json, got: Json) -> None:
        """Compare values; numbers compare by value."""
        if encode(expected) != encode(got):
            self.add(where, encode(expected), encode(got))

    def same_items(self, where: str, expected: Iterable[Json], got: Iterable[Json]) -> None:
        """Compare as multisets."""
        wanted = Counter(map(encode, expected))
        found = Counter(map(encode, got))
        if wanted != found:
            self.add(where, _listed(wanted), _listed(found))
            for title, part in (("missing", wanted - found), ("too many", found - wanted)):
                if part:
                    self.lines.append(f"    {title}: {_listed(part)}")

    def same_set(self, where: str, expected: Iterable[Json], got: Iterable[Json]) -> None:
        """Compare as sets."""
        wanted = set(map(encode, expected))
        found = set(map(encode, got))
        if wanted != found:
            self.add(where, _listed(wanted), _listed(found))

    def add(self, where: str, expected: str, got: str) -> None:
        """Note a difference."""
        self.lines.append(f"  {where}: expected {expected}, got {got}")


def error_kind(error: Exception) -> str:
    """How the format names an error; the name of its class where it has no name for it."""
    if isinstance(error, InvalidArgumentError):
        return "invalid_argument"
    return "unsupported_operation" if isinstance(error, UnsupportedOperationError) else type(error).__name__


def _listed(texts: Counter[str] | set[str]) -> str:
    items = sorted(texts.elements() if isinstance(texts, Counter) else texts)
    return f"[{', '.join(items)}]"

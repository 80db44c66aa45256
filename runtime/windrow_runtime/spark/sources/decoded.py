"""The elements and the malformed records that a reader makes of an Arrow batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from windrow.sources import MalformedRecord

__all__ = ["Decoded"]


@dataclass(slots=True)
class Decoded:
    """What an Arrow batch holds: elements, and records that do not fit their type."""

    values: Sequence[Any]  # elements of every type
    malformed: list[MalformedRecord] = field(default_factory=list)
    unmatched: dict[str, str] = field(default_factory=dict)  # headers to warn of, with the file of each

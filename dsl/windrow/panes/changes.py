"""Defines changes: results that refine earlier ones, and withdrawals of the earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

R_co = TypeVar("R_co", covariant=True)


class ChangeKind(Enum):
    """The kind of a record of a stream of changes; the values are those of Flink's changelogs."""

    INSERT = "+I"
    """A first result."""

    UPDATE_BEFORE = "-U"
    """The withdrawal of a result that the next one replaces."""

    UPDATE_AFTER = "+U"
    """A result that replaces one that was withdrawn."""

    DELETE = "-D"
    """The withdrawal of a result that no other of the same window replaces, such as that of a session that grew."""

    @property
    def is_withdrawal(self) -> bool:
        """Whether the record takes an earlier one back."""
        return self in {ChangeKind.UPDATE_BEFORE, ChangeKind.DELETE}


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one of a class with arguments
class Change(Generic[R_co]):
    """A record of a stream of changes; see :meth:`windrow.DataStream.changelog`.

    Attributes:
        kind: Whether it is a result or a withdrawal.
        value: The result, or the one that is withdrawn.
    """

    kind: ChangeKind
    value: R_co

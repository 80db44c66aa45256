"""Which cases an engine does not run, and why. There is no other way to skip a case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tests.conformance.cases import Case

__all__ = ["NO_SKIPS", "SKIPS", "Skips", "SkipsError"]


class SkipsError(Exception):
    """A table names a case or a kind that does not exist."""


@dataclass(frozen=True)
class Skips:
    """What an engine does not run.

    Attributes:
        kinds: Kinds of cases, each with the reason.
        names: Names of cases, each with the reason.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def reason(self, case: Case) -> str | None:
        """Why the case is skipped; None: it is run."""
        return self.names.get(case.name) or self.kinds.get(case.kind)

    def check(self, kinds: Collection[str], cases: Iterable[Case]) -> None:
        """See that everything in the table exists.

        Args:
            kinds: The kinds that there are.
            cases: All cases that there are.

        Raises:
            SkipsError: With the names that do not.
        """
        known = {case.name for case in cases}
        unknown = sorted(set(self.kinds) - set(kinds)) + sorted(set(self.names) - known)
        if unknown:
            raise SkipsError(f"the table of skipped cases names what is not there: {', '.join(unknown)}")


NO_SKIPS = Skips()

_A_PART = "it tests a part of the language that no engine runs; --engine local runs it"

SKIPS: dict[str, Skips] = {
    "local": NO_SKIPS,
    "spark": Skips(
        kinds={
            "assign": _A_PART,
            "intersects": _A_PART,
            "invalid": _A_PART,
            "merge": _A_PART,
            "merging_window_set": "it tests a part of the operator, which is the same for all engines",
            "properties": _A_PART,
            "stagger": _A_PART,
            "trigger": "it tests a trigger on its own, without an engine; --engine local runs it",
            "window_start": _A_PART,
        }
    ),
}
"""By engine."""

"""What checks of `windrow doctor` find, and how it is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from windrow.errors import WindrowError


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found: a line, and how to mend what is wrong; None: all is well."""

    text: str
    mend: str | None = None


def failed(error: WindrowError, before: str = "") -> Finding:
    """Returns the finding for an error of a run."""
    lines = f"{before}{error}".replace("\n", "\n       ")
    return Finding(lines, "see the hint; --verbose shows all")


def shown(findings: Iterable[Finding]) -> bool:
    """Shows findings as they come; returns whether all is well."""
    is_well = True
    for finding in findings:
        print(f"{'ok' if finding.mend is None else 'wrong':<7}{finding.text}")
        if finding.mend is not None:
            print(f"       mend: {finding.mend}")
        sys.stdout.flush()
        is_well = is_well and finding.mend is None
    return is_well


def say(text: str) -> None:
    """Tells the user what the command waits for."""
    print(f"windrow: {text}", file=sys.stderr, flush=True)

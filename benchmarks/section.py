"""A table of figures with what is claimed of them, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Claim", "Section", "markdown_table"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that figures should show.

    Attributes:
        text: What, with its figures.
        holds: Whether they do.
        timed: Whether it is about time, which a busy machine can spoil.
    """

    text: str
    holds: bool
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one measurement.

    Attributes:
        name: What ``--only`` calls it.
        title: What was measured.
        header: The columns.
        rows: The figures, as they are printed.
        claims: What they show.
    """

    name: str
    title: str
    header: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def text(self) -> str:
        """As Markdown."""
        lines = [f"{self.name}: {self.title}", "", markdown_table(self.header, self.rows)]
        if self.claims:
            lines.append("")
            lines += [f"- {'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text}" for claim in self.claims]
        return "\n".join(lines)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are aligned: the first to the left, the others to the right."""
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = cells
        padded = [first.ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        return f"| {' | '.join(padded)} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([line(header), f"|{rule}|", *map(line, rows)])

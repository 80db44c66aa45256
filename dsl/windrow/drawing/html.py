"""Writes tables in HTML, with escaped text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windrow.drawing.svg import text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, of texts."""
    return "\n".join(["<table>", _row("th", heads), *[_row("td", cells) for cells in rows], "</table>"])


def _row(cell: str, contents: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{text(content)}</{cell}>' for content in contents)}</tr>"

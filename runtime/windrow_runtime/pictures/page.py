"""Writes an HTML page with a picture, and a table of what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from windrow_runtime.pictures.panel import Panel
from windrow_runtime.pictures.style import colours_of
from windrow_runtime.pictures.svg import shortened, text


def table_of(panels: Sequence[Panel], *, shows_keys: bool) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Returns the headings and rows of a table of panes, in the order in which they fired."""
    heads = ["key"] * shows_keys + ["window", "at", "timing", "change", "result"]
    rows: list[Sequence[str]] = []
    for panel in panels:
        # Withdrawals are sorted among the panes, next to those that replace the withdrawn results.
        boxes = sorted([*panel.scene.withdrawals, *panel.scene.boxes], key=lambda box: box.pane.moment.order)
        for pane in (box.pane for box in boxes):
            cells = [repr(panel.scene.key)] * shows_keys
            cells += [panel.window_text(pane), panel.at_text(pane), pane.pane.timing.value if pane.pane else ""]
            rows.append([*cells, pane.kind.value, panel.values_text(pane)])
    return heads, rows


def page(title: str, svg: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an HTML page that needs no other file."""
    light, dark = colours_of("ground", "ink")
    table = [_row("th", heads), *(_row("td", [shortened(cell, 200) for cell in cells]) for cells in rows)]
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>",
            "<style>",
            f"body {{ {light}; font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem }}",
            f"@media (prefers-color-scheme: dark) {{ body {{ {dark} }} }}",
            "svg { max-width: 100%; height: auto }",
            "table { border-collapse: collapse; margin: 1rem 0 0 92px }",
            "th, td { border-bottom: 1px solid #8886; padding: 0.15rem 1rem 0.15rem 0; text-align: left }",
            "</style>",
            "</head>",
            "<body>",
            svg,
            "<table>",
            *table,
            "</table>",
            "</body>",
            "</html>",
            "",
        )
    )


def _row(cell: str, contents: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{text(content)}</{cell}>' for content in contents)}</tr>"

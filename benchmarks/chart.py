"""Draws the figures of ``benchmarks.run --json`` as SVG: ``python -m benchmarks.chart figures.json chart.svg``.

A panel for each workload, with a bar for each contender; of several inputs the one that most contenders took, and of
these the one with the largest batches. Bars of one panel have one scale. Series have microseconds for a record instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.workloads import DECLARED, FOLDING, GENERAL, HANDWRITTEN, NATIVE, PYFLINK, PYTHON, TUNED

__all__ = ["Bar", "Panel", "draw", "drawn", "main", "panels"]

# Okabe and Ito's colours, which people who see few of them can tell apart too.
COLOURS: Mapping[str, str] = {
    NATIVE: "#cccccc",
    TUNED: "#777777",
    DECLARED: "#0072b2",
    PYTHON: "#56b4e9",
    GENERAL: "#009e73",
    HANDWRITTEN: "#d55e00",
    FOLDING: "#e69f00",
    PYFLINK: "#cc79a7",
}
OTHER = "#000000"
SERIES = ("records", "keys")
COLUMNS = 2
WIDTH, MARGIN = 960, 20
LABEL, FIGURE, BAR, GAP = 190, 120, 16, 4
TITLE, PANEL_GAP, LINE = 20, 22, 15
FONT = "font-family='system-ui, sans-serif' font-size='12'"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure of a contender.

    Attributes:
        contender: Whose, which gives the colour.
        label: What stands in front of the bar.
        value: How long it is.
        text: What stands behind it.
    """

    contender: str
    label: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The bars of a workload, and notes on contenders that ran under other conditions."""

    title: str
    subtitle: str
    bars: Sequence[Bar]
    notes: Sequence[str] = ()

    @property
    def height(self) -> int:
        """In pixels."""
        return TITLE + LINE + len(self.bars) * (BAR + GAP) + len(self.notes) * LINE


# Any: what JSON holds.
def panels(figures: Any) -> list[Panel]:
    """The panels of a file of figures."""
    return [
        _series(result) if result["workload"] in SERIES else _speeds(result)
        for result in figures["spark"]
        if result["inputs"]
    ]


# Any: as above.
def _speeds(result: Any) -> Panel:
    size = max(result["inputs"], key=lambda one: (len(one["runs"]), one["rows_per_batch"]))
    bars = [
        Bar(run["contender"], run["contender"], run["rows_per_second"], _speed(run, size["runs"]))
        for run in size["runs"]
    ]
    notes = [f"{run['contender']}: {run['conditions']}" for run in size["runs"] if run.get("conditions") is not None]
    unit = f"rows a second (times tuned); batches of {size['rows_per_batch']:,} rows"
    return Panel(result["title"], unit, bars, notes)


# Any: as above.
def _speed(run: Any, runs: Any) -> str:
    """The rows a second, and how many times those of tuned native Spark SQL they are."""
    text = f"{run['rows_per_second']:,}"
    times = run["times"].get(TUNED)
    if times is not None and any(other["contender"] == TUNED for other in runs) and run["contender"] != TUNED:
        text += f" ({times:.2f}x)"
    return text


# Any: as above.
def _series(result: Any) -> Panel:
    bars: list[Bar] = []
    for size in result["inputs"]:
        by_keys = result["workload"] == "keys"
        amount = size["keys"] if by_keys else size["rows_per_batch"] * size["batches"]
        for run in size["runs"]:
            cost = run["microseconds_per_row"]
            label = f"{amount:,}: {run['contender']}"
            bars.append(Bar(run["contender"], label, cost, f"{cost:.2f}"))
    return Panel(result["title"], "microseconds for a record; shorter is better", bars)


def draw(shown: Sequence[Panel], notes: Sequence[str]) -> str:
    """The panels as SVG, side by side, with the notes below.

    Args:
        shown: The panels.
        notes: Lines of text: when and with which versions the figures were taken.
    """
    across = (WIDTH - MARGIN * (COLUMNS + 1)) / COLUMNS
    parts: list[str] = []
    y = float(MARGIN)
    for place in range(0, len(shown), COLUMNS):
        row = shown[place : place + COLUMNS]
        for column, panel in enumerate(row):
            parts += _panel(panel, MARGIN + column * (across + MARGIN), y, across)
        y += max(panel.height for panel in row) + PANEL_GAP
    for note in notes:
        y += LINE
        parts.append(f"<text x='{MARGIN}' y='{y:g}' fill='#555555'>{escape(note)}</text>")
    height = y + MARGIN
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:g}' {FONT} role='img'>"
    ground = f"<rect width='{WIDTH}' height='{height:g}' fill='#ffffff'/>"
    return "\n".join([head, "<title>Benchmarks of windrow</title>", ground, *parts, "</svg>", ""])


def _panel(panel: Panel, x: float, y: float, across: float) -> list[str]:
    parts = [
        f"<text x='{x:g}' y='{y + 12:g}' font-weight='bold'>{escape(panel.title)}</text>",
        f"<text x='{x:g}' y='{y + 12 + LINE:g}' fill='#555555'>{escape(panel.subtitle)}</text>",
    ]
    longest = max(bar.value for bar in panel.bars)
    room = across - LABEL - FIGURE
    top = y + TITLE + LINE
    for bar in panel.bars:
        length = room * bar.value / longest
        colour = COLOURS.get(bar.contender, OTHER)
        parts += [
            f"<text x='{x + LABEL - 6:g}' y='{top + 12:g}' text-anchor='end'>{escape(bar.label)}</text>",
            f"<rect x='{x + LABEL:g}' y='{top:g}' width='{length:.1f}' height='{BAR}' fill='{colour}'/>",
            f"<text x='{x + LABEL + length + 5:.1f}' y='{top + 12:g}'>{escape(bar.text)}</text>",
        ]
        top += BAR + GAP
    for note in panel.notes:
        parts.append(f"<text x='{x:g}' y='{top + 12:g}' font-size='10' fill='#555555'>{escape(note)}</text>")
        top += LINE
    return parts


# Any: as above.
def _notes(figures: Any) -> list[str]:
    where = figures["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    machine = f"{where['date'][:10]}, {where['processor']}, {where['cores']} cores"
    if where["load"] is not None:
        machine += f", load {where['load']} before the run"
    lines = [machine, f"Python {where['python']}, {versions}"]
    others = {run["version"] for result in figures["spark"] for size in result["inputs"] for run in size["runs"]}
    lines += sorted(other for other in others if other)
    if figures["scale"]["quick"]:
        lines.append("Quick run: little input, rough figures.")
    return lines


# Any: as above.
def drawn(figures: Any) -> str:
    """The chart of a file of figures, as SVG."""
    return draw(panels(figures), _notes(figures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Read figures and write the chart."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("figures", type=Path, help="what benchmarks.run --json wrote")
    parser.add_argument("chart", type=Path, help="the SVG file to write")
    options = parser.parse_args(arguments)
    figures = json.loads(options.figures.read_text())
    if not panels(figures):
        print(f"{options.figures} has no figures of Spark", file=sys.stderr)
        return 1
    options.chart.parent.mkdir(parents=True, exist_ok=True)
    options.chart.write_text(drawn(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())

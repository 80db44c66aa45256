"""Draws the charts of README.md and of these pages from what was measured: ``python -m docs.charts``.

The files are in ``docs/_static`` and in the repository, so that README.md shows them where nothing is built; a test
compares them with what is drawn here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.workloads import DECLARED, PYFLINK, PYTHON, TUNED
from docs.pictures import late_element
from windrow.drawing.style import style_sheet
from windrow.drawing.svg import element, text, width_of

# Any in this module: what JSON holds.

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "_static"

NARROWEST: Final = 370
"""The width in pixels at which all texts of a chart still have room: that of a page on a phone."""

_CLASS: Final = "windrow-chart"
_RULES: Final = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: $ink }
.ground { fill: $ground }
.group { font-weight: 600 }
.note { fill: $soft; font-size: 12px }
.one { stroke: $soft; stroke-width: 1; stroke-dasharray: 3 3 }
.declared { fill: $early }
.python { fill: $late }
.spark { fill: $element-line }
.flink { fill: $watermark }
.pyflink { fill: $ink }
"""
_GROUP, _BAR, _GAP, _LINE, _PAD = 24, 13, 4, 18, 10
_INSIDE: Final = 0.96
"""The share of the width between the margins."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure of a contender.

    Attributes:
        kind: The class of its colour, one of ``declared``, ``python``, ``spark``, ``flink`` and ``pyflink``.
        value: The figure that its length shows.
        figure: The text behind it.
    """

    kind: str
    value: float
    figure: str


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one workload, and the text above them."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of several workloads on one scale.

    Attributes:
        title: What the bars show, for those who do not see them too.
        names: The contender of each kind of bars, for the legend.
        groups: The bars.
        are_ratios: Whether figures are ratios: bars then begin at 1, to the right where they are above it, and the
            scale is logarithmic.
    """

    title: str
    names: dict[str, str]
    groups: Sequence[Group]
    are_ratios: bool = False

    def draw(self) -> str:
        """Returns the chart as SVG, whose bars follow the width of the page while its texts keep their size."""
        parts = [_text(0, 13, self.title, "note")]
        y = _LINE
        for line in self._legend():
            parts += [_across(share, y, [*_entry(kind, name)]) for share, kind, name in line]
            y += _LINE
        y += _PAD // 2
        for group in self.groups:
            if not self._left:
                parts.append(_text(0, y + 16, group.title, "group"))
                y += _GROUP
            begin = y
            for bar in group.bars:
                parts += self._bar(bar, y)
                y += _BAR + _GAP
            if self._left:
                parts.append(_text(0, (begin + y) / 2 + 3, group.title, "group"))
            if self.are_ratios:
                x = _percent(self._place(1.0))
                ends = {"y1": float(begin - _GAP), "y2": float(y)}
                parts.append(element("line", {"class": "one", "x1": x, "x2": x, **ends}))
            y += _PAD
        inner = f'<svg x="8" y="8" width="{_percent(_INSIDE)}" height="{y}">'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" class="{_CLASS}" role="img" width="100%" height="{y + 8}">',
                element("title", {}, text(self.title)),
                element("style", {}, text(style_sheet(_CLASS, _RULES)).replace("&quot;", '"')),
                element("rect", {"class": "ground", "width": "100%", "height": "100%"}),
                *(inner, *parts, "</svg>"),
                "</svg>",
                "",
            )
        )

    def _legend(self) -> list[list[tuple[float, str, str]]]:
        """Returns the lines of the legend: the place of each contender as a share of the width, its kind, its name."""
        lines: list[list[tuple[float, str, str]]] = [[]]
        across = 0.0
        for kind, name in self.names.items():
            share = (25 + width_of(name, 12)) / NARROWEST / _INSIDE
            if across + share > 1.0:
                lines.append([])
                across = 0.0
            lines[-1].append((across, kind, name))
            across += share
        return lines

    def _bar(self, bar: Bar, y: float) -> Iterator[str]:
        one = self._place(1.0) if self.are_ratios else self._left
        begin, end = sorted((one, self._place(bar.value)))
        length = _percent(max(end - begin, 0.004))
        yield element("rect", {"class": bar.kind, "x": _percent(begin), "y": y, "width": length, "height": float(_BAR)})
        yield element("text", {"x": _percent(max(end, one)), "dx": 5.0, "y": y + 11}, text(bar.figure))

    @property
    def _left(self) -> float:
        """Where bars begin, as a share of the width: beside the titles of their groups if these are names alone."""
        widest = max(width_of(group.title, 13) for group in self.groups)
        return (widest + 10) / NARROWEST / _INSIDE if widest < 40 else 0.0

    def _place(self, value: float) -> float:
        """Returns where a figure lies, as a share of the width; behind the last one there is room for its text."""
        bars = [bar for group in self.groups for bar in group.bars]
        room = 1.0 - self._left - (8 + max(width_of(bar.figure, 13) for bar in bars)) / NARROWEST / _INSIDE
        if not self.are_ratios:
            return self._left + room * value / max(bar.value for bar in bars)
        low = math.log(min(1.0, *(bar.value for bar in bars)))
        high = math.log(max(1.0, *(bar.value for bar in bars)))
        return self._left + room * (math.log(value) - low) / (high - low)


def _entry(kind: str, name: str) -> Iterator[str]:
    yield element("rect", {"class": kind, "width": 10.0, "height": 10.0, "y": 4.0})
    yield _text(15, 13, name, "note")


def _across(share: float, y: float, parts: Sequence[str]) -> str:
    """Returns parts that are moved to the right by a share of the width."""
    return f'<svg x="{_percent(share)}" y="{y}" width="100%" height="{_LINE}">{"".join(parts)}</svg>'


def _text(x: float, y: float, content: str, kind: str) -> str:
    return element("text", {"class": kind, "x": x, "y": y}, text(content))


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


# What was measured


def figures() -> Any:
    """Returns the figures of ``benchmarks.run``."""
    return json.loads((ROOT / "benchmarks" / "figures.json").read_text(encoding="utf-8"))


def nexmark() -> dict[str, dict[str, str]]:
    """Returns the cells of each of Nexmark's queries in ``benchmarks/README.md``, by the names of the columns."""
    lines = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").splitlines()
    (head,) = (place for place, line in enumerate(lines) if _cells(line)[:2] == ["query", "time"])
    names = _cells(lines[head])
    rows: dict[str, dict[str, str]] = {}
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        cells = dict(zip(names, _cells(line), strict=True))
        rows[cells["query"]] = cells
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


# The charts

KINDS: Final = {DECLARED: "declared", PYTHON: "python", TUNED: "spark", PYFLINK: "pyflink"}
TITLES: Final = {
    "tumbling": "tumbling, 5 s",
    "tumbling-json": "these, from JSON lines",
    "tumbling-csv": "these, from CSV",
    "sliding": "sliding, 60 s by 5 s",
    "sessions": "sessions, gap of 30 s",
    "lateness": "5 s, 5 % late, 30 s allowed",
    "top": "three highest of each 5 s",
    "chained": "5 s, then 60 s of these",
    "small-parquet": "small batches of 5 s",
    "small-json": "these, from JSON lines",
}
"""What a workload is called in a chart; one that has no name here has no ratio to native Spark SQL."""

SHOWN: Final = (("tumbling-1k", 250_000), ("tumbling-100k", 250_000))
QUERY: Final = "q12"
"""The query of Nexmark that README.md shows: the one whose two ratios are nearest to the medians of all."""


def speed() -> Chart:
    """Returns the chart of README.md: rows a second of windrow, native Spark SQL, Flink SQL and PyFlink."""
    sizes = {
        (workload["workload"], size["rows_per_batch"]): size
        for workload in figures()["spark"]
        for size in workload["inputs"]
    }
    groups = []
    for name, rows in SHOWN:
        size = sizes[name, rows]
        bars = [
            Bar(KINDS[run["contender"]], run["rows_per_second"], _speed(run["rows_per_second"], run["times"][TUNED]))
            for run in size["runs"]
            if run["contender"] in KINDS
        ]
        bars.sort(key=lambda bar: [*KINDS.values()].index(bar.kind))
        groups.append(Group(f"Mean of each 5 seconds, {size['keys']:,} keys", bars))
    query = nexmark()[QUERY]
    ours, spark, flink = (int(query[name].replace(",", "")) for name in ("windrow/s", "native/s", "Flink/s"))
    bars = [
        Bar("declared", ours, _speed(ours, ours / spark)),
        Bar("spark", spark, _speed(spark, 1.0)),
        Bar("flink", flink, _speed(flink, flink / spark)),
    ]
    groups.append(Group(f"Nexmark {QUERY}, bids of each bidder in windows", bars))
    names = {
        "declared": "windrow, declared",
        "python": "windrow, Python functions",
        "spark": "tuned Spark SQL",
        "flink": "Flink SQL",
        "pyflink": "PyFlink",
    }
    return Chart("Rows a second, and times tuned Spark SQL", names, groups)


def _speed(rows: int, times: float) -> str:
    return f"{rows:,} ({times:.2f})"


def workloads() -> Chart:
    """Returns the chart of ``benchmarks.run``: each workload's ratios to tuned native Spark SQL."""
    groups = []
    for workload in figures()["spark"]:
        kind, _, keys = workload["workload"].rpartition("-")
        if kind not in TITLES:
            continue
        size = max(workload["inputs"], key=lambda one: (len(one["runs"]), one["rows_per_batch"]))
        times = [(run["contender"], run["times"][TUNED]) for run in size["runs"] if run["contender"] != TUNED]
        bars = [
            Bar(KINDS[name], value, _times(value))
            for name, value in times
            if name in (DECLARED, PYTHON) and value is not None
        ]
        groups.append(Group(f"{TITLES[kind]}, {keys} keys, {_short(size['rows_per_batch'])}", bars))
    names = {"declared": "windrow, declared", "python": "windrow, Python functions"}
    return Chart("Times tuned Spark SQL; keys, and rows of a batch", names, groups, are_ratios=True)


def _short(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1_000}k"


def queries() -> Chart:
    """Returns the chart of Nexmark: each query's ratios to tuned native Spark SQL and to Flink SQL."""
    groups = []
    for name, cells in nexmark().items():
        both = (("spark", cells["x native"]), ("flink", cells["x Flink"]))
        bars = [Bar(kind, float(cell), _times(float(cell))) for kind, cell in both if cell != "-"]
        if bars:
            groups.append(Group(name, bars))
    names = {"spark": "windrow / tuned Spark SQL", "flink": "windrow / Flink SQL"}
    return Chart("Events a second of windrow, as ratios", names, groups, are_ratios=True)


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def drawn() -> dict[str, str]:
    """Returns each file that README.md and the pages show, by its name in ``docs/_static``."""
    return {
        "speed.svg": speed().draw(),
        "benchmarks.svg": workloads().draw(),
        "nexmark.svg": queries().draw(),
        "late-element.svg": late_element().draw().svg + "\n",
    }


def main() -> None:
    """Write the files."""
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()

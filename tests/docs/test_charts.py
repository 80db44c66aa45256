"""The charts of README.md and of the pages: they are drawn from what was measured, and nothing in them overlaps."""

from __future__ import annotations

import math
import re
import statistics
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.workloads import TUNED
from docs import charts
from docs.charts import NARROWEST, Bar, Chart, Group
from windrow.drawing.svg import width_of

SVG = "{http://www.w3.org/2000/svg}"
INSIDE = 0.96 * NARROWEST
CHARTS = {"speed": charts.speed, "workloads": charts.workloads, "queries": charts.queries}


def pixels(node: ET.Element, name: str) -> float:
    """A length in a chart at its narrowest."""
    value = node.get(name, "0")
    return float(value[:-1]) / 100 * INSIDE if value.endswith("%") else float(value)


def inner(chart: Chart) -> ET.Element:
    (found,) = ET.fromstring(chart.draw()).findall(f"{SVG}svg")
    return found


def test_the_files_are_those_of_the_figures() -> None:
    for name, svg in charts.drawn().items():
        assert (charts.FOLDER / name).read_text(encoding="utf-8") == svg, "python -m docs.charts"


@pytest.mark.parametrize("name", CHARTS)
def test_texts_have_room_on_a_phone(name: str) -> None:
    chart = inner(CHARTS[name]())
    assert len(chart.findall(f"{SVG}text")) > 8
    for node in chart.findall(f"{SVG}text"):
        small = node.get("class") == "note"
        bold = 1.06 if node.get("class") == "group" else 1.0
        end = pixels(node, "x") + pixels(node, "dx") + bold * width_of(node.text or "", 12 if small else 13)
        assert end <= INSIDE, node.text
    for entry in chart.findall(f"{SVG}svg"):
        assert pixels(entry, "x") + 15 + width_of(entry.findtext(f"{SVG}text", ""), 12) <= INSIDE


@pytest.mark.parametrize("name", CHARTS)
def test_no_bar_lies_over_another_or_over_a_text(name: str) -> None:
    chart = inner(CHARTS[name]())
    bars = [(pixels(bar, "y"), pixels(bar, "y") + pixels(bar, "height")) for bar in chart.findall(f"{SVG}rect")]
    assert all(end < begin for (_, end), (begin, _) in pairwise(bars))
    beside = name == "queries"
    for node in chart.findall(f"{SVG}text[@class='group']"):
        y = pixels(node, "y")
        if beside:
            ends = pixels(node, "x") + width_of(node.text or "", 13)
            assert all(ends < pixels(bar, "x") for bar in chart.findall(f"{SVG}rect"))
        else:
            assert not any(begin < y + 3 and y - 11 < end for begin, end in bars)


def test_bars_are_as_long_as_their_figures() -> None:
    bars = [Bar("declared", 400.0, "400"), Bar("spark", 100.0, "100")]
    chart = inner(Chart("rows", {"declared": "windrow", "spark": "Spark"}, [Group("a workload of this test", bars)]))
    longer, shorter = (pixels(bar, "width") for bar in chart.findall(f"{SVG}rect"))
    assert longer == pytest.approx(4 * shorter, rel=0.01)


def test_ratios_go_to_both_sides_of_one() -> None:
    bars = [Bar("declared", 4.0, "4.00"), Bar("python", 0.5, "0.50")]
    chart = inner(Chart("times", {"declared": "a"}, [Group("a workload of this test", bars)], are_ratios=True))
    above, below = chart.findall(f"{SVG}rect")
    (line,) = chart.findall(f"{SVG}line")
    assert pixels(above, "x") == pytest.approx(pixels(line, "x1"), abs=0.1)
    assert pixels(below, "x") + pixels(below, "width") == pytest.approx(pixels(line, "x1"), abs=0.1)
    assert pixels(above, "width") == pytest.approx(2 * pixels(below, "width"), rel=0.01)


def test_colours_follow_the_background() -> None:
    style = inner_style(charts.speed())
    assert "@media (prefers-color-scheme: dark)" in style
    assert set(re.findall(r"\.windrow-chart \.(\w+) \{ fill", style)) >= {"declared", "python", "spark", "flink"}


def inner_style(chart: Chart) -> str:
    return ET.fromstring(chart.draw()).findtext(f"{SVG}style", "")


def test_each_workload_with_a_ratio_is_drawn() -> None:
    measured = [
        workload["workload"]
        for workload in charts.figures()["spark"]
        if any(run["contender"] == TUNED for size in workload["inputs"] for run in size["runs"])
    ]
    assert len(charts.workloads().groups) == len(measured) > 10


def test_the_query_of_the_readme_is_nearest_to_both_medians() -> None:
    rows = {name: (cells["x native"], cells["x Flink"]) for name, cells in charts.nexmark().items()}
    ratios = {name: [*map(float, both)] for name, both in rows.items() if "-" not in both}
    medians = [statistics.median(each) for each in zip(*ratios.values(), strict=True)]

    def distance(name: str) -> float:
        return math.hypot(*(math.log(a / b) for a, b in zip(ratios[name], medians, strict=True)))

    assert min(ratios, key=distance) == charts.QUERY


def test_main_writes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "FOLDER", tmp_path)
    charts.main()
    assert {file.name for file in tmp_path.iterdir()} == {*charts.drawn()}

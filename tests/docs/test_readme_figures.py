"""The figures of README.md and of the pages' front page stand in the tables of ``benchmarks``, or are counted here."""

from __future__ import annotations

import json
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import charts

ROOT = Path(__file__).parents[2]
MEASURED = "\n".join(
    (ROOT / "benchmarks" / name).read_text(encoding="utf-8").replace("\n", " ")
    for name in ("README.md", "figures.json")
)
PAGES = ("README.md", "docs/index.md")
FIGURE = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+\.\d+|\d+ to \d+ times)(?![\w,]|\.\d)")
VERSION = re.compile(r"\b(Python|Spark|Java|Flink|Version|version) \d+(\.\d+)+")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def told(page: str) -> str:
    """What a page says in words: without code, addresses and versions."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return VERSION.sub("", " ".join(text.split()))


def figures_of(page: str) -> Iterator[str]:
    for found in FIGURE.finditer(told(page)):
        yield found[1]


@pytest.mark.parametrize("page", PAGES)
def test_each_figure_was_measured(page: str) -> None:
    figures = [*figures_of(page)]
    assert len(figures) >= 3
    for figure in figures:
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,]|\.\d)", MEASURED), figure


@pytest.mark.parametrize("page", PAGES)
def test_medians_and_the_lowest_ratios_are_those_of_nexmark(page: str) -> None:
    rows = charts.nexmark()
    for column, other in (("x native", "Spark"), ("x Flink", "Flink")):
        ratios = {name: float(cells[column]) for name, cells in rows.items() if cells[column] != "-"}
        (median,) = re.findall(rf"(\d+\.\d+) times (?:tuned )?{other} SQL", told(page))
        assert median == f"{statistics.median(ratios.values()):.2f}", other
        for figure, query in re.findall(rf"(\d+\.\d+) times {other} \((q\d+)\)", told(page)):
            assert (query, float(figure)) == min(ratios.items(), key=lambda item: item[1])


def cases(folder: str) -> int:
    """How many cases the files of a folder of tests hold."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((ROOT / "tests" / folder).glob("*.json"))]
    return sum(len(each.get(name, ())) for each in found for name in ("cases", "stream_cases", "examples"))


@pytest.mark.parametrize("page", PAGES)
def test_the_cases_are_counted(page: str) -> None:
    ((flink, beam),) = re.findall(r"(\d+) cases after Flink's tests,? and (\d+) after Beam's", told(page))
    assert int(flink) == cases("conformance") + cases("two_inputs")
    assert int(beam) == cases("transcripts")


def test_the_list_of_tests_counts_them_too() -> None:
    listed = re.findall(r"-m tests\.(\w+) tests/.*# (\d+) ", text_of("CONTRIBUTING.md"))
    assert {name: int(number) for name, number in listed} == {
        name: cases(name) for name in ("conformance", "two_inputs", "patterns", "transcripts")
    }


def test_badges_say_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (spark,) = (each for each in project["optional-dependencies"]["spark"] if each.startswith("pyspark>="))
    badges = dict(re.findall(r"badge/(\w+)-([^)]+?)-[0-9a-f]{6}\)", text_of("README.md")))
    assert badges == {
        "Python": f"{project['requires-python'].removeprefix('>=')}_or_newer",
        "Spark": f"{spark.removeprefix('pyspark>=').partition(',')[0]}_or_newer",
        "licence": project["license"].replace("-", "--"),
    }

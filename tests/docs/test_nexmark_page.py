"""The pages about Nexmark show every query, with what was measured, its code in two parts and its plan."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import charts
from docs.nexmark_page import NEXMARK, divided, figures, plan, words

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "nexmark.md").read_text(encoding="utf-8")
QUERIES = [f"q{number}" for number in range(23)]


def test_each_query_stands_below_its_title() -> None:
    pages = [(DOCS / page).with_suffix(".md") for page in re.findall(r"^nexmark/q\d+-to-q\d+$", PAGE, re.MULTILINE)]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = re.findall(r"^## (q\d+): (.*)\n\n```\{nexmark-query\} (q\d+)\n```$", text, re.MULTILINE)
    assert shown == [(name, words(name)[0].lower(), name) for name in QUERIES]


def test_each_query_was_measured() -> None:
    assert [*charts.nexmark()] == QUERIES


def test_a_module_is_divided_behind_its_imports() -> None:
    source = '"""Adds."""\n\nfrom a import b\nimport c\n\n\ndef d() -> int:\n    import e\n\n    return b\n'
    assert divided(source) == ("from a import b\nimport c", "def d() -> int:\n    import e\n\n    return b")


@pytest.mark.parametrize("name", [f"queries/{name}" for name in QUERIES] + re.findall(r"\{nexmark-code\} (\w+)", PAGE))
def test_nothing_of_a_module_is_left_out(name: str) -> None:
    source = (NEXMARK / f"{name}.py").read_text(encoding="utf-8")
    imports, rest = divided(source)
    assert re.sub(r'^""".*?"""', "", source, flags=re.DOTALL).split() == f"{imports}\n{rest}".split()


def test_figures_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"q1": {"windrow/s": "1,000", "x native": "1.50", "x Flink": "0.50", "time": "steady"}}
    rows["q2"] = {**rows["q1"], "x native": "-"}
    rows["q3"] = {**rows["q2"], "x Flink": "-"}
    monkeypatch.setattr("docs.nexmark_page.nexmark", lambda: rows)
    assert figures("q1") == "1,000 events a second: 1.50 times tuned Spark SQL, 0.50 times Flink SQL."
    assert figures("q2") == "1,000 events a second: 0.50 times Flink SQL."
    assert figures("q3") == "1,000 events a second; neither of the others can state it."


@pytest.mark.parametrize("name", ["q5", "q13"])
def test_a_plan_says_how_each_step_runs_and_names_no_folder_of_this_machine(name: str) -> None:
    text = plan(name)
    assert text.startswith(f"pipeline {name}\n")
    assert re.search(r"source bid +parquet data/bid ", text)
    assert re.search(r"sink +<- \d+ +parquet results$", text, re.MULTILINE)
    assert "runs as columns" in text
    assert "/tmp" not in text

"""The pages for newcomers keep their form, and the page of limits says what the code does."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from windrow import DecimalType
from windrow.errors import InvalidArgumentError
from windrow.windows import SlidingEventTimeWindows
from windrow.windows.spec import FARTHEST
from windrow_runtime.codecs.csv import LONGEST_CELL
from windrow_runtime.codecs.text_sizes import TextSizes
from windrow_runtime.operators.operator import LONGEST_CHAIN

DOCS = Path(__file__).parents[1] / "docs"
LIMITS = (DOCS / "limits.md").read_text(encoding="utf-8")
RECIPES = sorted(page for page in (DOCS / "cookbook").glob("*.md") if page.stem != "index")
SYSTEMS = sorted(page for page in (DOCS / "coming-from").glob("*.md") if page.stem != "index")
ALONE = [DOCS / name for name in ("glossary.md", "limits.md", "questions.md", "why.md")]
WIDEST = 84  # columns of code that a page of 1280 pixels shows without cutting them off


def code_of(page: Path) -> list[str]:
    fences = re.findall(r"^```\w+\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for fence in fences for line in fence.splitlines()]


@pytest.mark.parametrize("page", [*RECIPES, *SYSTEMS, *ALONE], ids=lambda page: page.stem)
def test_code_is_not_cut_off(page: Path) -> None:
    lines = code_of(page)
    assert lines
    assert [line for line in lines if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_has_a_problem_a_program_what_to_watch_for_and_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    parts = ["**The problem.**", "SparkRunner()", "**Watch for**", "**Other words for it:**"]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("page", SYSTEMS, ids=lambda page: page.stem)
def test_a_page_for_users_of_another_system_has_its_four_parts(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == ["The same job", "Names", "What differs", "Checkpoints and state"]


@pytest.mark.parametrize("folder", ["cookbook", "coming-from"])
def test_the_index_of_a_folder_names_each_page_in_its_table(folder: str) -> None:
    index = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    table, _, tree = index.partition("```{toctree}")
    for page in (DOCS / folder).glob("*.md"):
        if page.stem != "index":
            assert f"{{doc}}`{page.stem}`" in table
            assert f"\n{page.stem}\n" in tree


def test_the_limits_of_windows_and_timers_are_those_of_the_code() -> None:
    assert "an element is in 1,000,000 windows at most" in LIMITS
    slide = timedelta(milliseconds=1)
    SlidingEventTimeWindows.of(1_000_000 * slide, slide)
    with pytest.raises(InvalidArgumentError):
        SlidingEventTimeWindows.of(1_000_001 * slide, slide)
    assert f"may do so {LONGEST_CHAIN:,} times" in LIMITS
    assert f"up to 2^{FARTHEST.bit_length() - 1} milliseconds" in LIMITS
    assert 1 << (FARTHEST.bit_length() - 1) == FARTHEST


def test_the_limits_of_files_and_numbers_are_those_of_the_code() -> None:
    assert f"A line has {TextSizes().longest_line >> 20} MiB at most" in LIMITS
    assert f"a cell of CSV {LONGEST_CELL:,} characters" in LIMITS
    assert "Decimals have 38 digits in columns, 18 of them after the point" in LIMITS
    assert DecimalType(38, 18).precision == 38
    with pytest.raises(InvalidArgumentError):
        DecimalType(39, 18)


def test_the_limits_of_versions_are_those_of_the_distribution() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    assert "| Python | 3.11 and newer |" in LIMITS
    spark = {part.split(">=")[0]: part.split(">=")[1] for part in project["optional-dependencies"]["spark"]}
    assert spark["pyspark"] == "4.2,<5"
    assert "| PySpark | 4.2 and newer, below 5 |" in LIMITS
    assert spark["pandas"] == "2.2,<3"
    assert "| pandas | 2.2 and newer, below 3, for Spark |" in LIMITS

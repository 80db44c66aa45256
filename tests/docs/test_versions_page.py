"""The versions on the page about where pipelines run are those of ``pyproject.toml`` and ``constraints.txt``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.versions import PYTHONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "where-it-runs.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version_rows() -> dict[str, tuple[str, str]]:
    """Returns what the table of versions asks for and what it says of tests, by the first word of a row."""
    table = PAGE.partition("## Versions\n")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return {name.partition(",")[0]: (needed, tested) for name, needed, tested in rows[2:]}


def test_bounds_are_those_of_the_package() -> None:
    rows = version_rows()
    python = PROJECT["requires-python"].removeprefix(">=")
    assert rows["Python"][0] == f"{python} or newer"
    assert PYTHONS[0] == python
    assert f"each of {PYTHONS[0]} to {PYTHONS[-1]} " in rows["Python"][1]
    bounds = dict(re.findall(r"(\w+)>=([\d.]+,<\d+)", " ".join(PROJECT["optional-dependencies"]["spark"])))
    for name in ("pyspark", "pandas", "pyarrow"):
        low, high = bounds[name].split(",<")
        (needed,) = (each for title, (each, _) in rows.items() if title.lower() == name)
        assert needed == f"{low} or newer, below {high}"


def test_ci_has_the_versions_that_the_page_names() -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", constraints, re.MULTILINE))
    rows = version_rows()
    for title in ("PySpark", "pandas", "pyarrow"):
        assert f"in CI {pinned[title.lower()]}" in rows[title][1]
    assert f"confluent-kafka {pinned['confluent-kafka']}," in rows["Kafka without a jar"][1]
    (python,) = re.findall(r"CI installs, for Python ([\d.]+)\.", constraints)
    assert rows["Python"][1].startswith(f"in CI {python};")

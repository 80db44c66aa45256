"""The name of the distribution: one constant, which the package, the hints and the docs agree with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from windrow.distribution import DISTRIBUTION, install_hint

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# The name with or without an extra, where somebody is to install it from the index.
INSTALLS = re.compile(r"pip install[^`\n]*?['\" ](windrow[\w.-]*)(?:\[([\w,]+)\])?")


def test_the_package_has_the_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION


def test_a_hint_names_the_distribution_and_an_extra() -> None:
    assert install_hint("spark") == "pip install 'windrow-streams[spark]'"


def test_every_page_docstring_and_hint_names_the_distribution() -> None:
    found = []
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    for file in [*pages, *(ROOT / "dsl").glob("**/*.py"), *(ROOT / "runtime").glob("**/*.py")]:
        found += INSTALLS.findall(file.read_text(encoding="utf-8"))
    assert found
    assert {name for name, _ in found} == {DISTRIBUTION}
    extras = {extra for _, group in found for extra in group.split(",") if extra}
    assert extras <= set(PROJECT["optional-dependencies"])

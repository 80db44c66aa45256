from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.release.checks import ReleaseError, check_tag, version

ROOT = Path(__file__).parents[2]
LINK = re.compile(r'(?:src="|srcset="|href="|\]\()([^")\s]+)')
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-27\n"


def test_tag_version_and_changelog_agree() -> None:
    check_tag("v0.2.0", "0.2.0", CHANGELOG)


@pytest.mark.parametrize(
    ("tag", "of", "words"),
    [
        ("0.2.0", "0.2.0", "expected the tag v0.2.0"),
        ("v0.2.0", "0.2.1", "expected the tag v0.2.1"),
        ("v0.3.0", "0.3.0", "no section `## [0.3.0]"),
    ],
)
def test_a_release_that_contradicts_itself_is_refused(tag: str, of: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(words)):
        check_tag(tag, of, CHANGELOG)


def test_the_version_is_read() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", version())


def shown_readme() -> str:
    """README as a package index gets it."""
    text = (ROOT / "README.md").read_text()
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    for each in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


def test_links_of_readme_work_on_a_package_index() -> None:
    links = LINK.findall(shown_readme())
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    own = [link for link in links if "windrow-streams/windrow/" in link]
    assert own
    missing = [
        link
        for link in own
        if not (
            ROOT / re.sub(r"^https://[^/]+/windrow-streams/windrow/(?:blob/|tree/)?main/", "", link).partition("#")[0]
        ).exists()
    ]
    assert missing == []

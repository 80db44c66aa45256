"""The name of the distribution: one constant, which the package, the hints and the docs agree with."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from windrow.distribution import DISTRIBUTION, install_hint, requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRA = re.compile(r"\b(?:the|without the) extra `{1,2}([\w-]+)`")
# The name with or without an extra, where somebody is to install it from an index.
INSTALLS = re.compile(r"pip install[^`\n]*?['\" ](windrow[\w.-]*)(?:\[([\w,]+)\])?")


def test_the_package_has_the_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION


AT_COMMIT = "windrow-streams[spark] @ git+https://git.example/windrow.git@a1b2#subdirectory=x"
FROM_GIT = {"url": "https://git.example/windrow.git", "vcs_info": {"vcs": "git", "commit_id": "a1b2"}}
WHEEL = "windrow-streams[spark] @ file://{here}/a%20b.whl"


@pytest.mark.parametrize(
    ("noted", "required", "arguments"),
    [
        (None, "windrow-streams[spark]", "'windrow-streams[spark]'"),
        ("not json", "windrow-streams[spark]", "'windrow-streams[spark]'"),
        ({"url": "file:///gone"}, "windrow-streams[spark]", "'windrow-streams[spark]'"),
        ({"url": "file://{here}/a%20b.whl", "archive_info": {}}, WHEEL, f"'{WHEEL}'"),
        (
            {"url": "file://{here}", "dir_info": {"editable": True}},
            "windrow-streams[spark] @ file://{here}",
            "--editable '{here}[spark]'",
        ),
        ({**FROM_GIT, "subdirectory": "x"}, AT_COMMIT, f"'{AT_COMMIT}'"),
    ],
    ids=["no note", "no JSON", "gone", "wheel", "editable", "git"],
)
def test_a_hint_installs_from_where_windrow_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: object, required: str, arguments: str
) -> None:
    (tmp_path / "a b.whl").touch()
    information = tmp_path / "windrow_streams-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: windrow-streams\nVersion: 0.1.0\n")
    if noted is not None:
        text = noted if isinstance(noted, str) else json.dumps(noted).replace("{here}", str(tmp_path))
        (information / "direct_url.json").write_text(text)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: metadata.PathDistribution(information))
    assert requirement("spark") == required.replace("{here}", str(tmp_path))
    assert install_hint("spark") == f"pip install {arguments}".replace("{here}", str(tmp_path))


def test_without_metadata_a_hint_names_the_distribution_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert install_hint("spark") == "pip install 'windrow-streams[spark]'"


def test_every_page_and_docstring_names_extras_that_there_are() -> None:
    named: set[str] = set()
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    for file in [*pages, *(ROOT / "dsl").glob("**/*.py"), *(ROOT / "runtime").glob("**/*.py")]:
        text = file.read_text(encoding="utf-8")
        assert {name for name, _ in INSTALLS.findall(text)} <= {DISTRIBUTION}, file
        named |= {*EXTRA.findall(text), *(extra for _, group in INSTALLS.findall(text) for extra in group.split(","))}
    assert {"spark", "kafka", "database"} <= named
    assert named - {""} <= set(PROJECT["optional-dependencies"])

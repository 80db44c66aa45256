"""Sources, sinks and runners that packages register."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.connectors import sink_class, source_class
from windrow.entry_points import load
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.local import LocalRunner


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed packages."""
    install(
        tmp_path,
        "first",
        "[windrow.sources]\n"
        "mine = windrow.sources:CollectionSource\n"
        "both = windrow.sources:CollectionSource\n"
        "none = no_such_module:Source\n"
        "other = windrow.sources:MalformedRecord\n"
        "[windrow.sinks]\n"
        "mine = windrow.sinks:CollectSink\n"
        "other = windrow.sources:MalformedRecord\n",
    )
    install(
        tmp_path,
        "second",
        "[windrow.sources]\nmine = windrow.sources:CollectionSource\nboth = windrow.sources:RateSource\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def install(folder: Path, name: str, entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def test_classes_by_their_names() -> None:
    assert source_class("mine") is CollectionSource
    assert sink_class("mine") is CollectSink


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kafak", r"no installed package brings a source(.|\n)*given: +kafak\n +expected: both, mine, none, other\n"),
        ("both", r"several packages(.|\n)*sources:CollectionSource of first, windrow.sources:RateSource of second"),
        ("none", r"cannot be loaded(.|\n)*no_such_module:Source of first: ModuleNotFoundError"),
        ("other", r"names something else(.|\n)*MalformedRecord(.|\n)*windrow's Source(.|\n)*derived from CustomSource"),
    ],
)
def test_a_name_that_gives_no_source_is_refused(name: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        source_class(name)


def test_a_name_that_gives_no_sink_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"brings a sink(.|\n)*expected: mine, other\n"):
        sink_class("none")
    with pytest.raises(InvalidArgumentError, match=r"names something else(.|\n)*derived from CustomSink"):
        sink_class("other")


def test_runners_by_their_names() -> None:
    assert load("windrow.runners", "local") is LocalRunner
    with pytest.raises(InvalidArgumentError, match=r"brings a runner(.|\n)*expected: local, spark\n(.|\n)*dist-info"):
        load("windrow.runners", "flink")

"""Which paths are patterns, and what they match."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from windrow.addresses.paths import check_pattern, local_path, real_path
from windrow.addresses.patterns import alternatives, hadoop_pattern, pattern_regex, split_pattern
from windrow.errors import InvalidArgumentError
from windrow.sinks import DeltaSink, JsonFileSink, ParquetFileSink
from windrow.sources import TextFileSource


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("out", "out"),
        ("/out", "/out"),
        ("file:/out", "/out"),
        ("file:///out/a%20b", "/out/a%20b"),
        ("file://host/out", None),
        ("hdfs://name:9000/out", None),
        ("s3a://bucket/out", None),
    ],
)
def test_which_paths_are_of_a_mounted_file_system(path: str, local: str | None) -> None:
    assert local_path(path) == local


def test_a_name_that_exists_is_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w[1]" / "logs-1").mkdir(parents=True)
    (tmp_path / "broken*").symlink_to("nowhere")
    assert split_pattern("w[1]") == ("w[1]", "")
    assert split_pattern(f"{tmp_path}/w[1]/logs-*") == (f"{tmp_path}/w[1]/", "logs-*")
    assert split_pattern("w[1]/../w[1]/a*/b") == ("w[1]/../w[1]/", "a*/b")
    assert split_pattern("w[2]/logs-1") == ("", "w[2]/logs-1")
    assert split_pattern("broken*") == ("broken*", "")
    assert split_pattern("a\\b") == ("a\\b", "")
    check_pattern("w[1]/../x")
    with pytest.raises(InvalidArgumentError, match="go up after a wildcard"):
        check_pattern("w[2]/../x")


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("logs-*", ["logs-", "logs-1", "logs-a.b"], ["logs", "xlogs-1", "logs-1/a"]),
        ("*", ["a", "a_"], ["_a", ".a"]),
        ("?b", ["ab"], ["_b", "b", "aab"]),
        ("x[ab]", ["xa", "xb"], ["xc", "x[ab]"]),
        ("x[^ab]", ["xc"], ["xa"]),
        ("x[!a-c]", ["xd"], ["xb"]),
        ("{x,y{1,2}}*", ["x", "y1", "y2z"], ["y", "z"]),
        (r"w\[1\]*", ["w[1]", "w[1]2"], ["w1"]),
        (r"w[[]1[*?\{\]]", ["w[1*", "w[1]", "w[1{"], ["w1", "w[1x"]),
        ("a.b*", ["a.b"], ["axb"]),
        ("a]}b*", ["a]}b"], []),
    ],
)
def test_what_a_pattern_matches(pattern: str, matched: list[str], others: list[str]) -> None:
    found = pattern_regex(pattern)
    assert [name for name in [*matched, *others] if found.fullmatch(name)] == matched


def test_braces_may_hold_slashes() -> None:
    assert list(alternatives("{a/b,c}/*.json")) == ["a/b/*.json", "c/*.json"]


@pytest.mark.parametrize("pattern", ["a{b", "a[b", "{a,[b}", "a[]b", "a[^]"])
def test_what_is_not_closed_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="not closed"):
        pattern_regex(pattern)


def test_a_pattern_for_hadoop() -> None:
    assert hadoop_pattern(r"*/a*/?[[a-c][!{]\[{x,y}") == r"[^_.]*/a*/[^_.][\[a-c][^\{]\[{x,y}"
    assert hadoop_pattern("*a/*") == "{,[^_.]*}a/[^_.]*"
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        pattern_regex("[c-a]")


def test_one_spelling(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    assert real_path(f"file:{tmp_path}/linked/a/../b/") == f"{real_path(str(tmp_path))}/b"
    assert re.fullmatch("s3a://b/x", real_path("S3A://b//x/."))


@pytest.mark.parametrize("path", ["", b"bytes", "a\0b", 7, None])
def test_what_is_no_path(path: Any) -> None:
    for make in (JsonFileSink[str], ParquetFileSink[str], DeltaSink[str]):
        with pytest.raises(InvalidArgumentError, match="a path"):
            make(path)
    with pytest.raises(InvalidArgumentError, match="files are read from a path"):
        TextFileSource(path)


@pytest.mark.parametrize("encoding", ["idna", "punycode", "base64", "no such"])
def test_encodings_that_no_text_file_has(encoding: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the encoding is unknown"):
        TextFileSource("x", encoding=encoding)

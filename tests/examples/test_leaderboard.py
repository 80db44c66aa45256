"""Beam's leaderboard in a few lines."""

from __future__ import annotations

import ast
from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples import leaderboard
from examples.leaderboard import Play, play_on, user_totals
from tests.pictures.pictured import SVG, groups, texts
from windrow import from_source
from windrow_runtime.testing import PushSource, StreamHarness


def test_it_takes_fewer_than_fifty_lines() -> None:
    """Lines of code: all but those that are blank, a comment, or the docstring of the module."""
    source = Path(leaderboard.__file__).read_text()
    docstring = ast.parse(source).body[0]
    lines = source.splitlines()[docstring.end_lineno :]
    code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert 40 < len(code) < 50


def test_both_boards_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "leaderboard.svg"
    leaderboard.main([str(path)])
    assert capsys.readouterr().out.splitlines() == [
        *("red early 3", "red early 8", "ada early 8", "red on time 8", "red early 4", "blue early 6"),
        *("red late 10", "blue late 3", "red early 5", "blue early 8", "ada early 15", "bob early 11"),
    ]
    root = ElementTree.parse(path).getroot()
    red, blue = root.findall(f"{SVG}g[@class='panel']")
    assert sorted(texts(red, "value"), key=int) == ["3", "4", "5", "8", "8", "10"]
    assert sorted(texts(blue, "value"), key=int) == ["3", "6", "8"]
    assert [len(groups(panel, "late")) for panel in (red, blue)] == [2, 2]  # an element and its pane


def test_late_plays_count_for_their_users_as_well() -> None:
    source = PushSource(Play)
    with StreamHarness(user_totals(from_source(source)), source) as harness:
        play_on(harness)
        totals = {total.key: total.value for total in harness.take_values()}
    plays = [play for arrived in leaderboard.ARRIVALS.values() for play in arrived]
    assert totals == {user: sum(play.score for play in plays if play.user == user) for user in ("ada", "bob")}

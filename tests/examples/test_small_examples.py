"""The examples that run in process."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples import climate, sessions, word_count
from examples.sessions import CLICKS, Click, Visit
from windrow_runtime.testing import StreamHarness


def test_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    sessions.main()
    assert capsys.readouterr().out.splitlines() == [
        "Visit(visitor='ada', first_minute=0, clicks=2, basket=0)",
        "Visit(visitor='bob', first_minute=1, clicks=3, basket=3)",
        "Visit(visitor='ada', first_minute=15, clicks=2, basket=2)",
        "Visit(visitor='bob', first_minute=70, clicks=1, basket=0)",
    ]


def test_climate(capsys: pytest.CaptureFixture[str]) -> None:
    climate.main()
    assert capsys.readouterr().out.splitlines() == [
        "Climate(sensor='cellar', low=7.5, mean=8.0, high=8.5, measured=3, coldest_minute=20)",
        "Climate(sensor='attic', low=21.5, mean=23.0, high=24.5, measured=2, coldest_minute=10)",
        "Climate(sensor='attic', low=None, mean=None, high=None, measured=0, coldest_minute=None)",
    ]


def test_a_full_basket_buys_patience() -> None:
    assert sessions.patience(Click("ada", 0, basket=0)) == timedelta(minutes=10)
    assert sessions.patience(Click("ada", 0, basket=1)) == timedelta(minutes=30)


def test_the_order_of_clicks_does_not_matter() -> None:
    harness = StreamHarness[Click, Visit](sessions.build(reversed(CLICKS)))
    for click in CLICKS[::-1]:
        harness.process_element(click)
    harness.process_watermark(1_000 * 60_000)
    expected = {("ada", 0, 2), ("bob", 1, 3), ("ada", 15, 2), ("bob", 70, 1)}
    assert {(v.visitor, v.first_minute, v.clicks) for v in harness.take_values()} == expected


def test_word_count_of_its_own_lines(capsys: pytest.CaptureFixture[str]) -> None:
    word_count.main([])
    assert capsys.readouterr().out.splitlines() == [
        "   2  be",
        "   1  is",
        "   1  not",
        "   1  or",
        "   1  question",
        "   1  that",
        "   1  the",
        "   2  to",
    ]


def test_word_count_of_given_lines(capsys: pytest.CaptureFixture[str]) -> None:
    word_count.main(["a b", "B"])
    assert capsys.readouterr().out.splitlines() == ["   1  a", "   2  b"]

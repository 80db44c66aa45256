"""What the examples print, in process and on Spark, and what ``--help`` says of each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples import (
    card_fraud,
    clicks_and_impressions,
    climate,
    dead_letters,
    declared_aggregates,
    orders_and_payments,
    rules_for_alerts,
    sessions,
    word_count,
)
from examples.sessions import CLICKS, Click, Visit
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner
from windrow_runtime.testing import StreamHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
QUARTERS = [
    "Quarter(station='harbour', start=1777622400000, trips=3, bikes=2, mean=3.0, longest=4.5)",
    "Quarter(station='market', start=1777622400000, trips=1, bikes=1, mean=0.5, longest=0.5)",
    "Quarter(station='harbour', start=1777623300000, trips=1, bikes=1, mean=6.0, longest=6.0)",
    "Quarter(station='market', start=1777623300000, trips=2, bikes=1, mean=3.0, longest=3.0)",
]
PRINTED: dict[str, tuple[Callable[[], object], list[str]]] = {
    "sessions": (
        sessions.main,
        [
            "Visit(visitor='ada', first_minute=0, clicks=2, basket=0)",
            "Visit(visitor='bob', first_minute=1, clicks=3, basket=3)",
            "Visit(visitor='ada', first_minute=15, clicks=2, basket=2)",
            "Visit(visitor='bob', first_minute=70, clicks=1, basket=0)",
        ],
    ),
    "card_fraud": (card_fraud.main, ["ann 0.5 [20.0, 40.0] 900.0", "unfinished: {'probe': [0.8], 'rising': [30.0]}"]),
    "climate": (
        climate.main,
        [
            "Climate(sensor='cellar', low=7.5, mean=8.0, high=8.5, measured=3, coldest_minute=20)",
            "Climate(sensor='attic', low=21.5, mean=23.0, high=24.5, measured=2, coldest_minute=10)",
            "Climate(sensor='attic', low=None, mean=None, high=None, measured=0, coldest_minute=None)",
        ],
    ),
    "dead_letters": (
        lambda: dead_letters.main([]),
        [
            "ann 30",
            "bob 5",
            "ann 42",
            "balance: Payment(customer='bob', amount=-50): OverdrawnError: the balance would be -45",
            "parse: 'ann twenty': ValueError: invalid literal for int() with base 10: 'twenty'",
        ],
    ),
    "word_count": (
        lambda: word_count.main([]),
        ["   2  be", *(f"   1  {word}" for word in ("is", "not", "or", "question", "that", "the")), "   2  to"],
    ),
    "word_count of given lines": (lambda: word_count.main(["a b", "B"]), ["   1  a", "   2  b"]),
    "declared_aggregates": (lambda: declared_aggregates.main(["--local"]), QUARTERS),
    "rules_for_alerts": (rules_for_alerts.main, ["cellar: 27.0 is above 18.0", "3.14: 27.5 is above 26.0"]),
    "orders_and_payments": (
        orders_and_payments.main,
        [
            "paid Paid(order=1, missing=0.0)",
            "paid Paid(order=3, missing=0.5)",
            "too late Order(number=4, at=120000, amount=9.0)",
        ],
    ),
    "clicks_and_impressions": (
        clicks_and_impressions.main,
        [
            "Rate(advertisement='cup', impressions=1, clicks=0)",
            "Rate(advertisement='tea', impressions=1, clicks=1)",
            "Rate(advertisement='tea', impressions=2, clicks=1)",
        ],
    ),
}
UNORDERED = {"orders_and_payments", "clicks_and_impressions"}
"""Examples whose results come in any order."""


@pytest.mark.parametrize("example", PRINTED)
def test_examples_print_their_results(
    example: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main, expected = PRINTED[example]
    monkeypatch.setattr("sys.argv", ["example.py"])
    main()
    printed = capsys.readouterr().out.splitlines()
    assert (sorted(printed) if example in UNORDERED else printed) == expected


@pytest.mark.spark
def test_declared_aggregates_on_spark(capsys: pytest.CaptureFixture[str]) -> None:
    declared_aggregates.main([])
    plan, results = capsys.readouterr().out.split("collect quarters\n")
    assert "runs as columns, partially aggregated before the exchange\n" in plan
    assert results.splitlines() == QUARTERS


def test_rules_for_alerts_on_spark(spark: SparkSession) -> None:
    # All rules come before all readings: there is no limit for offices any more.
    sink = CollectSink[str]()
    readings = from_collection([step for step in rules_for_alerts.STEPS if isinstance(step, rules_for_alerts.Reading)])
    limits = from_collection([step for step in rules_for_alerts.STEPS if isinstance(step, rules_for_alerts.Limit)])
    pipeline = Pipeline("alerts", rules_for_alerts.build(readings, limits).sink_to(sink))
    for result in (LocalRunner().run(pipeline), SparkRunner(spark).run(pipeline)):
        assert result.collected(sink) == ["cellar: 27.0 is above 18.0"]


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


def test_the_first_trigger_of_the_documentation_takes_twenty_lines() -> None:
    section = (ROOT / "docs" / "concepts" / "triggers.md").read_text().partition("(triggers-own)=")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    lines = [line for line in code.splitlines() if line.strip()]
    assert any(line.startswith("class ") and "(Trigger[" in line for line in lines)
    assert len(lines) <= 20


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_help_says_how_to_call_it_and_runs_nothing(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith(f"usage: {example.name}")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []

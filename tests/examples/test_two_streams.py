"""The examples that join two streams print what they should."""

from __future__ import annotations

import pytest

from examples import clicks_and_impressions, orders_and_payments


def test_orders_and_payments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["orders_and_payments.py"])
    orders_and_payments.main()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "paid Paid(order=1, missing=0.0)",
        "paid Paid(order=3, missing=0.5)",
        "too late Order(number=4, at=120000, amount=9.0)",
    ]


def test_clicks_and_impressions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["clicks_and_impressions.py"])
    clicks_and_impressions.main()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "Rate(advertisement='cup', impressions=1, clicks=0)",
        "Rate(advertisement='tea', impressions=1, clicks=1)",
        "Rate(advertisement='tea', impressions=2, clicks=1)",
    ]

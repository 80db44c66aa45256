"""As-of joins with a retention: which versions are partners, and when versions and their keys leave the state."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.budget import seeds
from tests.two_streams.shop import (
    KEYED_ORDERS,
    KEYED_PAYMENTS,
    ORDERS,
    PAYMENTS,
    Order,
    Payment,
    driven,
    feed,
    maybe_pair,
    pair,
    seconds,
    story,
)
from windrow import DataStream, Pipeline, joins
from windrow.errors import InvalidArgumentError
from windrow.sinks import CollectSink
from windrow.time import MAX_TIMESTAMP
from windrow_runtime.testing import StreamHarness

# Any in this module: stages of both kinds of joins, and operators, which have no public view.

AS_OF: Any = KEYED_ORDERS.as_of_join(KEYED_PAYMENTS)
OUTER: Any = KEYED_ORDERS.left_as_of_join(KEYED_PAYMENTS)


class Found(NamedTuple):
    """Which version a left element has found."""

    order: str
    version: str | None


def found(order: Order, payment: Payment | None) -> Found:
    return Found(order.name, None if payment is None else payment.name)


def declared(*, outer: bool) -> Callable[..., Found]:
    right: Any = joins.right_or_none if outer else joins.right
    function: Callable[..., Found] = joins.into(
        Found, joins.left(lambda order: order.name), right(lambda payment: payment.name)
    )
    return function


def state_of(harness: StreamHarness[Any, Any]) -> dict[Any, Any]:
    """The cells of each key."""
    operators: Any = harness._execution.operators
    (operator,) = operators.values()
    return {key: each.state for key, each in operator.state.keys.items()}


def millis(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def test_a_version_is_a_partner_for_as_long_as_it_is_retained() -> None:
    fresh = AS_OF.retention(seconds(2)).apply(pair)
    assert story(fresh, "x0 a1 b2 c2.001 ^1 ^9") == {"^1": "ax@1", "^9": "bx@2"}
    all_left = OUTER.retention(seconds(2)).apply(maybe_pair)
    assert story(all_left, "u0 v1 b3 c3.001 ^9") == {"^9": "bv@3, c-@3.001"}
    assert story(AS_OF.retention(seconds(0)).apply(pair), "u1 a1 b1.001 ^9") == {"^9": "au@1"}
    assert story(AS_OF.retention(timedelta.max).apply(pair), "u1 ^9000 a9000 ^9001") == {"^9001": "au@9000"}


@pytest.mark.parametrize(("lateness", "last"), [(0, 4.0), (3, 7.0)])
def test_a_key_leaves_when_the_watermark_has_passed_its_last_version(lateness: int, last: float) -> None:
    stage = OUTER.retention(seconds(3)).allowed_lateness(seconds(lateness))
    with driven(stage.apply(maybe_pair)) as harness:
        feed(harness, f"x1 a{last - lateness} ^{last}")
        assert harness.take_values() == ["ax"]
        assert state_of(harness)
        feed(harness, f"b{last - lateness} | ^{last + 0.001}")
        assert harness.take_values() == ["bx"], "an element that is not late finds the version"
        assert state_of(harness) == {}
        assert harness.event_timers() == []


def test_newer_versions_stay_when_older_ones_go() -> None:
    with driven(AS_OF.retention(seconds(3)).apply(pair)) as harness:
        feed(harness, "u1 v2 w6 ^5.5")
        (cells,) = state_of(harness).values()
        assert cells["right"] == [[6_000], [Payment("north", "w")]]
        feed(harness, "a5.5 a9 ^9")
        assert harness.take_values() == ["aw"], "no version is near enough to the first"
        harness.process_watermark(MAX_TIMESTAMP)
        assert (state_of(harness), harness.event_timers()) == ({}, [])


def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    sizes = []
    with driven(OUTER.retention(seconds(5)).apply(maybe_pair)) as harness:
        for number in range(500):
            harness.process_element(Payment(f"shop {number}", "u"), 1_000 * number, source=PAYMENTS)
            harness.process_element(Order(f"shop {number}", "a"), 1_000 * number, source=ORDERS)
            harness.process_watermark(1_000 * number)
            sizes.append(len(state_of(harness)))
        assert harness.take_values() == ["au"] * 500
    assert max(sizes) == sizes[-1] == 6


@pytest.mark.parametrize("stage", [AS_OF, OUTER], ids=["inner", "outer"])
def test_the_retention_is_one_duration(stage: Any) -> None:
    for wrong in (seconds(-1), 5, timedelta(microseconds=1)):
        with pytest.raises(InvalidArgumentError, match=r"the retention (must|has a fraction)") as caught:
            stage.retention(wrong)
        assert "test_as_of_retention.py" in str(caught.value)
    with pytest.raises(InvalidArgumentError, match=r"the retention is set twice(.|\n)*2 s, then 1 s"):
        stage.retention(seconds(2)).allowed_lateness(seconds(1)).retention(seconds(1))
    for name in ("tolerance", "history_retention", "ttl"):
        with pytest.raises(AttributeError, match=r"retention\(timedelta"):
            getattr(stage, name)


def test_the_plan_shows_the_retention() -> None:
    stage = OUTER.allowed_lateness(seconds(1)).retention(seconds(90))
    for each in (stage, OUTER.retention(seconds(90)).allowed_lateness(seconds(1))):
        plan = Pipeline("p", each.apply(maybe_pair).sink_to(CollectSink[str]())).explain()
        assert "left outer, retention 1 min 30 s, allowed lateness 1 s, maybe_pair" in plan


@pytest.mark.parametrize("lateness", [0, 4])
@pytest.mark.parametrize("retention", [0, 3, 11])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("form", ["function", "declared", "on_error"])
def test_each_element_finds_what_a_search_through_all_versions_finds(
    lateness: int, retention: int, outer: bool, form: str
) -> None:
    chance = random.Random(f"{lateness} {retention} {outer}")
    stage = (OUTER if outer else AS_OF).retention(millis(retention)).allowed_lateness(millis(lateness))
    function = declared(outer=outer) if form == "declared" else found
    joined: DataStream[Found] = stage.apply(function, on_error="drop" if form == "on_error" else "fail")
    for _ in seeds(2):
        versions: list[tuple[str, int]] = []
        waiting: dict[str, tuple[str, int]] = {}
        too_late: dict[str, tuple[str, int]] = {}
        expected: dict[str, str | None] = {}
        watermark = -50
        with driven(joined) as harness:
            for number in range(90):
                kind = chance.choice(["left", "right", "time"])
                at, shop = chance.randrange(20) + number // 2 - 20, chance.choice("ns")
                if number == 89:
                    kind, at = "time", 200
                if kind == "time" and at > watermark:
                    watermark = at
                    harness.process_watermark(watermark)
                    for name in [name for name, (_, left) in waiting.items() if left <= watermark]:
                        of_shop, left = waiting.pop(name)
                        last = max((at for shop, at in versions if shop == of_shop and at <= left), default=None)
                        expected[name] = None if last is None or last < left - retention else str(last)
                elif kind == "left":
                    (too_late if at < watermark - lateness else waiting)[str(number)] = shop, at
                    harness.process_element(Order(shop, str(number)), at, source=ORDERS)
                elif kind == "right":
                    versions += [] if at < watermark - lateness else [(shop, at)]
                    harness.process_element(Payment(shop, str(at)), at, source=PAYMENTS)
                else:
                    harness.snapshot_restore()
                # Nothing stays that no element may find which is not late.
                earliest = min([watermark - lateness, *[left for _, left in too_late.values()]])
                for cells in state_of(harness).values():
                    for version in cells.get("right", [[]])[0]:
                        assert version >= earliest - retention - 1
            results = dict(harness.take_values())
            assert state_of(harness) == {}
        for name, (shop, left) in too_late.items() if outer else ():
            version = results.pop(name)  # of the versions that are still there
            assert version is None or ((shop, int(version)) in versions and left - retention <= int(version) <= left)
        assert results == {name: version for name, version in expected.items() if outer or version is not None}


def test_another_retention_goes_on_with_what_is_kept() -> None:
    stages = {name: AS_OF if name is None else AS_OF.retention(seconds(name)) for name in (None, 3, 20)}

    def after(first: int | None, second: int | None, moves: str) -> tuple[list[Any], dict[Any, Any]]:
        with driven(stages[first].apply(pair)) as before, driven(stages[second].apply(pair)) as harness:
            feed(before, "u1 v1/south ^2")
            harness._execution.restore(before._execution.snapshot())
            feed(harness, moves)
            return harness.take_values(), state_of(harness)

    assert after(None, 3, "a4 b4.5 ^9") == (["au"], {"south": {"right": [[1_000], [Payment("south", "v")]]}})
    assert after(3, None, "a9 b9/south ^9") == (["au", "bv"], after(None, None, "a9 b9/south ^9")[1])
    assert after(20, 3, "a4 b4.5 ^30") == (["au"], {})
    assert after(3, 20, "^3 a9 ^9 ^30") == (["au"], {})

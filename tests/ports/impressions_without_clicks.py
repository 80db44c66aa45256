"""Spark's left outer join of advertisements: an impression with its clicks of an hour, or with none."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import NamedTuple

from tests.ports.answer import Answer
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource

MINUTE = 60_000
HOUR = 60 * MINUTE


class Impression(NamedTuple):
    ad: int
    at: int


class Click(NamedTuple):
    ad: int
    at: int


class Joined(NamedTuple):
    ad: int
    impression: int
    click: int | None


rng = random.Random(41)
IMPRESSIONS = [Impression(rng.randrange(8), n * 7 * MINUTE) for n in range(60)]
CLICKS = [
    *(Click(rng.randrange(8), n * 13 * MINUTE + rng.randrange(MINUTE)) for n in range(30)),
    *(Click(each.ad, each.at + HOUR) for each in IMPRESSIONS[::9]),  # exactly at the bound
]
impressions = from_source(CollectionSource(IMPRESSIONS, batch_size=20)).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=2)), timestamp=lambda each: each.at
)
clicks = from_source(
    CollectionSource(sorted(CLICKS, key=lambda click: click.at + rng.randrange(HOUR)), batch_size=13)
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=3)), timestamp=lambda click: click.at
)
RESULTS = CollectSink[Joined]()
PIPELINE = Pipeline(
    "outer join",
    impressions.key_by(lambda impression: impression.ad)
    .interval_join(clicks.key_by(lambda click: click.ad))
    .between(timedelta(0), timedelta(hours=1))
    .left()
    .apply(lambda impression, click: Joined(impression.ad, impression.at, click.at if click else None))
    .sink_to(RESULTS),
)


def answers() -> list[Answer]:
    """Tries every pair."""
    rows: list[Joined] = []
    for each in IMPRESSIONS:
        pairs = [click for click in CLICKS if click.ad == each.ad and each.at <= click.at <= each.at + HOUR]
        rows += [Joined(each.ad, each.at, click.at) for click in pairs] or [Joined(each.ad, each.at, None)]
    assert None in {row.click for row in rows}
    return [Answer(RESULTS, rows)]

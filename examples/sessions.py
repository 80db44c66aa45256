"""Visits to a shop: sessions that end after a silence, which is longer for visitors with a full basket.

python examples/sessions.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import CollectSink
from windrow.windows import EventTimeSessionWindows, TimeWindow
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Click:
    visitor: str
    minute: int
    basket: int


@dataclass(frozen=True)
class Visit:
    visitor: str
    first_minute: int
    clicks: int
    basket: int


CLICKS = [
    Click("ada", 0, basket=0),
    Click("bob", 1, basket=0),
    Click("ada", 3, basket=0),
    Click("ada", 15, basket=1),
    Click("bob", 4, basket=2),
    Click("ada", 40, basket=2),
    Click("bob", 25, basket=3),
    Click("bob", 70, basket=0),
]


def patience(click: Click) -> timedelta:
    """How long a visitor may be silent before the visit is over."""
    return timedelta(minutes=30 if click.basket else 10)


def visit(visitor: str, window: TimeWindow, clicks: Sequence[Click]) -> Iterable[Visit]:
    last = max(clicks, key=lambda click: click.minute)
    yield Visit(visitor, window.start // 60_000, len(clicks), last.basket)


def build(clicks: Iterable[Click]) -> DataStream[Visit]:
    return (
        from_collection(clicks)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(hours=1)),
            timestamp=lambda click: click.minute * 60_000,
        )
        .key_by(lambda click: click.visitor)
        .window(EventTimeSessionWindows.with_dynamic_gap(patience))
        .apply(visit)
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    visits = CollectSink[Visit]("visits")
    pipeline = Pipeline("visits", build(CLICKS).sink_to(visits))
    for found in LocalRunner().run(pipeline).collected(visits):
        print(found)


if __name__ == "__main__":
    main(sys.argv[1:])

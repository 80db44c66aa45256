"""How many impressions of each advertisement were clicked in the same minute; those without a click count, too.

python examples/clicks_and_impressions.py
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection
from windrow.sinks import ConsoleSink
from windrow.windows import TumblingEventTimeWindows


@dataclass(frozen=True)
class Impression:
    advertisement: str
    at: int  # in milliseconds


@dataclass(frozen=True)
class Click:
    advertisement: str
    at: int  # in milliseconds


@dataclass(frozen=True)
class Rate:
    advertisement: str
    impressions: int
    clicks: int


IMPRESSIONS = [Impression(name, at * 1_000) for name, at in (("tea", 1), ("tea", 20), ("cup", 30), ("tea", 70))]
CLICKS = [Click("tea", 25_000), Click("tea", 75_000), Click("cup", 62_000)]


def rates(impressions: Sequence[Impression], clicks: Sequence[Click]) -> list[Rate]:
    return [Rate(impressions[0].advertisement, len(impressions), len(clicks))] if impressions else []


def build(impressions: DataStream[Impression], clicks: DataStream[Click]) -> DataStream[Rate]:
    return (
        impressions.co_group(clicks)
        .where(lambda impression: impression.advertisement)
        .equal_to(lambda click: click.advertisement)
        .window(TumblingEventTimeWindows.of(timedelta(minutes=1)))
        .apply(rates)
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    from windrow_runtime.local import LocalRunner

    impressions = from_collection(IMPRESSIONS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda impression: impression.at
    )
    clicks = from_collection(CLICKS).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda click: click.at
    )
    LocalRunner().run(Pipeline("clicks", build(impressions, clicks).sink_to(ConsoleSink())))


if __name__ == "__main__":
    main()

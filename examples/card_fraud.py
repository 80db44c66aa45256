"""Stolen cards: a small payment, larger ones, and a very large one within a minute. Unfinished series are told, too.

python examples/card_fraud.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_collection
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner


@dataclass(frozen=True)
class Payment:
    card: str
    second: int
    amount: float


@dataclass(frozen=True)
class Stolen:
    """A match: the fields have the names of the parts."""

    probe: Payment
    rising: list[Payment]
    large: Payment


PAYMENTS = [
    Payment("ann", 1, 0.5),
    Payment("bob", 2, 0.8),
    Payment("ann", 9, 40.0),
    Payment("ann", 4, 20.0),  # out of order
    Payment("ann", 12, 900.0),
    Payment("bob", 30, 30.0),
    Payment("bob", 95, 800.0),
]

UNFINISHED = OutputTag("unfinished", dict[str, list[Payment]])

STOLEN = (
    Pattern[Payment]
    .begin("probe", lambda payment: payment.amount < 1)
    .followed_by(
        "rising",
        lambda payment, matched: (
            1 < payment.amount < 500 and payment.amount > max((p.amount for p in matched["rising"]), default=0)
        ),
    )
    .one_or_more()
    .greedy()
    .followed_by("large", lambda payment: payment.amount >= 500)
    .within(timedelta(minutes=1))
)


def build(payments: Iterable[Payment]) -> DataStream[Stolen]:
    return (
        from_collection(payments)
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=10)),
            timestamp=lambda payment: payment.second * 1_000,
        )
        .key_by(lambda payment: payment.card)
        .pattern(STOLEN, skip=AfterMatchSkipStrategy.skip_past_last_event(), timed_out=UNFINISHED)
        .select(Stolen, name="stolen")
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    stolen, unfinished = CollectSink[Stolen]("stolen"), CollectSink[dict[str, list[Payment]]]("unfinished")
    matches = build(PAYMENTS)
    pipeline = Pipeline("cards", matches.sink_to(stolen), matches.get_side_output(UNFINISHED).sink_to(unfinished))
    result = LocalRunner().run(pipeline)
    for match in result.collected(stolen):
        print(match.probe.card, match.probe.amount, [payment.amount for payment in match.rising], match.large.amount)
    for partial in result.collected(unfinished):
        print("unfinished:", {part: [payment.amount for payment in found] for part, found in partial.items()})


if __name__ == "__main__":
    main(sys.argv[1:])

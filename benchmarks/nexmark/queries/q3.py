"""Local items: auctions of a category whose seller lives in one of three states, in whatever order both come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import ALL_TIME
from windrow import Pipeline, joins
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    city: str
    state: str
    id: int


def query(streams: Streams, out: Path) -> Pipeline:
    auctions = streams.auctions.filter(lambda a: a.category == 10)
    sellers = streams.persons.filter(lambda p: p.state in {"OR", "ID", "CA"})
    rows = (
        sellers.key_by(lambda p: p.id)
        .interval_join(auctions.key_by(lambda a: a.seller))
        .between(-ALL_TIME, ALL_TIME)
        .apply(
            joins.into(
                Row,
                name=joins.left(lambda p: p.name),
                city=joins.left(lambda p: p.city),
                state=joins.left(lambda p: p.state),
                id=joins.right(lambda a: a.id),
            )
        )
    )
    return Pipeline("q3", rows.sink_to(ParquetFileSink(out)))

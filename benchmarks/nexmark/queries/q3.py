"""Local items: auctions of a category whose seller lives in one of three states, in whatever order both come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.nexmark.meeting import Meeting
from benchmarks.nexmark.model import Auction, Person
from benchmarks.nexmark.streams import Streams
from windrow import Pipeline
from windrow.sinks import ParquetFileSink


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    city: str
    state: str
    id: int


class LocalItems(Meeting[Person, Auction, Row]):
    """Makes a row of a seller and an auction."""

    def row(self, one: Person, many: Auction) -> Row:
        return Row(one.name, one.city, one.state, many.id)


def query(streams: Streams, out: Path) -> Pipeline:
    auctions = streams.auctions.filter(lambda a: a.category == 10)
    sellers = streams.persons.filter(lambda p: p.state in {"OR", "ID", "CA"})
    both = sellers.connect(auctions).key_by(lambda p: p.id, lambda a: a.seller)
    rows = both.process(LocalItems(Person, Auction))
    return Pipeline("q3", rows.sink_to(ParquetFileSink(out)))

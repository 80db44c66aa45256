"""Log to files: all bids in folders of days and minutes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nexmark.streams import Streams
from benchmarks.nexmark.times import day, minute
from windrow import Pipeline
from windrow.sinks import FunctionSink


@dataclass(frozen=True, slots=True)
class Row:
    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


def write(out: Path, batch: int, rows: Sequence[Row]) -> None:
    """Writes a file for each minute; a batch that is run again writes the same files anew."""
    minutes: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        minutes[day(row.date_time), minute(row.date_time)].append(row)
    for (dt, hm), found in minutes.items():
        folder = out / f"dt={dt}" / f"hm={hm}"
        folder.mkdir(parents=True, exist_ok=True)
        columns = {name: [getattr(row, name) for row in found] for name in Row.__slots__}
        pq.write_table(
            pa.table({**columns, "dt": [dt] * len(found), "hm": [hm] * len(found)}), folder / f"{batch}.parquet"
        )


def query(streams: Streams, out: Path) -> Pipeline:
    rows = streams.bids.map(lambda b: Row(b.auction, b.bidder, b.price, b.date_time, b.extra))
    return Pipeline("q10", rows.sink_to(FunctionSink(partial(write, out))))

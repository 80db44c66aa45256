"""Generate the streams of the Nexmark benchmark as Parquet files.

``generate.py OUT --events 1000000 --seed 1 --files 20``. Events are numbered. Of every 50 in a row the first is a
person, the next three are auctions and the rest are bids. Ids and times follow from the number, all else is drawn. The
rows depend on all arguments except ``--files``, which only cuts them. NEXMARK.md says what comes out, and where it
departs from the generators of Beam and Flink.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CYCLE, AUCTIONS = 50, 3  # one person, three auctions and 46 bids
FIRST_ID, HOT_GROUP = 1000, 100  # one id in each group of neighbours is hot
ACTIVE_PEOPLE, OPEN_AUCTIONS, LEAD = 1000, 101, 10  # the latest ids, plus a lead, that other references draw from
TICK_MS = 10  # resolution of all times
START_MS = int(datetime(2026, 3, 1, 6, 59, 50, tzinfo=UTC).timestamp() * 1000)
BURST_SPACING_MS = 510 * 60_000
DELAYED_SHARE, SIDE_KEYS = 0.1, 10_000

CHANNELS = pa.array(["Google", "Facebook", "Baidu", "Apple", *(f"channel-{i}" for i in range(10_000))])
HOT_CHANNELS = 4
STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
CITIES = pa.array(
    ["Flagstaff", "Oakland", "Fresno", "Nampa", "Salem", "Eugene", "Tacoma", "Spokane", "Everett", "Casper"]
)
FIRST_NAMES = pa.array(["Ada", "Bruno", "Chloe", "Dario", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira"])
LAST_NAMES = pa.array(["Albrecht", "Bianchi", "Costa", "Dubois", "Engel", "Fischer", "Garcia", "Hansen", "Ito"])


class Text(NamedTuple):
    """A column of strings cut from one pool of characters; made only for the rows that are taken."""

    pool: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    def take(self, rows: np.ndarray) -> pa.Array:
        starts, lengths = self.starts[rows], self.lengths[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        index = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        buffers = pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.pool[index])
        return pa.StringArray.from_buffers(len(rows), *buffers)


class Draw:
    """Everything random, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.letters = self.rng.integers(ord("a"), ord("z") + 1, 1 << 20, dtype=np.uint8)
        self.words = np.where(self.rng.random(1 << 20) < 1 / 13, np.uint8(ord(" ")), self.letters)

    def text(self, rows: int, shortest: int, longest: int, *, spaces: bool = False) -> Text:
        pool = self.words if spaces else self.letters
        starts = self.rng.integers(0, len(pool) - longest, rows)
        return Text(pool, starts, self.rng.integers(shortest, longest + 1, rows))

    def word(self, rows: int, longest: int) -> pa.Array:
        return self.text(rows, 3, longest).take(np.arange(rows))

    def choice(self, values: pa.Array, rows: int) -> pa.Array:
        return values.take(pa.array(self.rng.integers(0, len(values), rows)))

    def price(self, rows: int) -> np.ndarray:
        """From 100 to 10**8, log-uniform, with three significant digits, so that equal prices occur."""
        exact = 100 * 10 ** self.rng.uniform(0, 6, rows)
        unit = 10 ** (np.floor(np.log10(exact)) - 2)
        found: np.ndarray = (np.rint(exact / unit) * unit).astype(np.int64)
        return found

    def reference(self, last: np.ndarray, hot_share: float, hot_offset: int, recent: int) -> np.ndarray:
        """Ids referred to when `last` is the newest one: often the hot one of its group, else one of the `recent`."""
        oldest = np.maximum(last + 1 - recent, 0)
        cold = oldest + self.rng.integers(0, last - oldest + 1 + LEAD)
        hot = last // HOT_GROUP * HOT_GROUP + hot_offset
        return FIRST_ID + np.where(self.rng.random(len(last)) < hot_share, hot, cold)


def event_times(number: np.ndarray, args: argparse.Namespace, draw: Draw) -> np.ndarray:
    burst = number * args.bursts // args.events
    first = -(-burst * args.events // args.bursts)
    burst_ms = -(-args.events // args.bursts) * 1000 // args.rate + TICK_MS
    elapsed_ms = (number - first) * 1000 // args.rate + burst * max(BURST_SPACING_MS, burst_ms)
    start_ms = START_MS + TICK_MS * draw.rng.integers(0, 1000)
    found: np.ndarray = start_ms + elapsed_ms // TICK_MS * TICK_MS
    return found


def persons(number: np.ndarray, times: np.ndarray, draw: Draw) -> dict[str, Any]:
    rows = len(number)
    digits = [pc.utf8_lpad(pa.array(draw.rng.integers(0, 10_000, rows)).cast(pa.string()), 4, "0") for _ in range(4)]
    return {
        "id": FIRST_ID + number // CYCLE,
        "name": pc.binary_join_element_wise(draw.choice(FIRST_NAMES, rows), draw.choice(LAST_NAMES, rows), " "),
        "email_address": pc.binary_join_element_wise(draw.word(rows, 6), "@", draw.word(rows, 4), ".com", ""),
        "credit_card": pc.binary_join_element_wise(*digits, " "),
        "city": draw.choice(CITIES, rows),
        "state": draw.choice(STATES, rows),
        "date_time": times,
        "extra": draw.text(rows, 110, 166),
    }


def auctions(number: np.ndarray, times: np.ndarray, draw: Draw, longest_ticks: int) -> dict[str, Any]:
    rows = len(number)
    initial_bid = draw.price(rows)
    return {
        "id": FIRST_ID + number // CYCLE * AUCTIONS + number % CYCLE - 1,
        "item_name": draw.text(rows, 3, 19, spaces=True),
        "description": draw.text(rows, 3, 99, spaces=True),
        "initial_bid": initial_bid,
        "reserve": initial_bid + draw.price(rows),
        "date_time": times,
        "expires": times + TICK_MS * draw.rng.integers(1, longest_ticks + 1, rows),
        "seller": draw.reference(number // CYCLE, 3 / 4, 0, ACTIVE_PEOPLE),
        "category": draw.rng.integers(10, 15, rows),
        "extra": draw.text(rows, 311, 467),
    }


def channel_urls(draw: Draw) -> pa.Array:
    """One address a channel; those of the hot channels and of a tenth of the others lack a channel_id."""
    count = len(CHANNELS)
    scattered = pa.array(np.arange(count) * 2_654_435_761 % 2**31).cast(pa.string())
    lacks = pa.array((draw.rng.random(count) < 0.1) | (np.arange(count) < HOT_CHANNELS))
    pages = pc.if_else(
        lacks, "item.htm?query=1", pc.binary_join_element_wise("item.htm?query=1", scattered, "&channel_id=")
    )
    folders = [draw.word(count, 4) for _ in range(3)]
    return pc.binary_join_element_wise("https://www.nexmark.com", *folders, pages, "/")


def bids(number: np.ndarray, times: np.ndarray, draw: Draw) -> dict[str, Any]:
    rows = len(number)
    hot_channel, other_channel = draw.rng.integers([0, HOT_CHANNELS], [HOT_CHANNELS, len(CHANNELS)], (rows, 2)).T
    channel = pa.array(np.where(draw.rng.random(rows) < 1 / 2, hot_channel, other_channel))
    return {
        "auction": draw.reference(number // CYCLE * AUCTIONS + AUCTIONS - 1, 1 / 2, 0, OPEN_AUCTIONS),
        "bidder": draw.reference(number // CYCLE, 3 / 4, 1, ACTIVE_PEOPLE),
        "price": draw.price(rows),
        "channel": CHANNELS.take(channel),
        "url": channel_urls(draw).take(channel),
        "date_time": times,
        "extra": draw.text(rows, 54, 82),
    }


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, compression="zstd")


def generate(args: argparse.Namespace) -> None:
    draw = Draw(args.seed)
    number = np.arange(args.events)
    times = event_times(number, args, draw)
    delayed = draw.rng.random(args.events) < DELAYED_SHARE
    arrival = np.argsort(times + delayed * draw.rng.integers(0, args.disorder_ms + 1, args.events), kind="stable")

    kind = np.digitize(number % CYCLE, [1, 1 + AUCTIONS])  # 0, 1, 2: person, auction, bid
    members = of_person, of_auction, of_bid = [np.flatnonzero(kind == k) for k in range(3)]
    longest_ticks = max(
        2 * 1666 * 1000 // args.rate // TICK_MS, 1
    )  # 1666 events bring 100 further auctions: the mean length
    streams = {
        "person": persons(of_person, times[of_person], draw),
        "auction": auctions(of_auction, times[of_auction], draw, longest_ticks),
        "bid": bids(of_bid, times[of_bid], draw),
    }
    for file, part in enumerate(np.array_split(arrival, args.files)):
        for k, (name, columns) in enumerate(streams.items()):
            rows = np.searchsorted(members[k], part[kind[part] == k])
            write(args.out / name / f"{file:05}.parquet", {c: values.take(rows) for c, values in columns.items()})
    keys = np.flatnonzero(draw.rng.random(SIDE_KEYS) < 0.9)
    write(args.out / "side_input" / "00000.parquet", {"key": keys, "value": [f"side-{key}" for key in keys]})

    manifest = {name: getattr(args, name) for name in ("events", "seed", "files", "disorder_ms", "rate", "bursts")}
    manifest |= {"max_auction_ms": longest_ticks * TICK_MS, "rows": dict(zip(streams, map(len, members), strict=True))}
    (args.out / "manifest.json").write_text(json.dumps(manifest) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the Nexmark streams as Parquet files.")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=20, help="files of each stream")
    parser.add_argument("--disorder-ms", type=int, default=2000, help="no event comes after one that is newer by more")
    parser.add_argument("--rate", type=int, default=1000, help="events per second of event time")
    parser.add_argument("--bursts", type=int, default=4, help="parts that begin 8.5 hours apart; 1 is a steady stream")
    args = parser.parse_args()
    if min(args.events, args.files, args.rate, args.bursts) < 1 or args.disorder_ms < 0 or args.out.exists():
        parser.error("counts and rate must be positive, --disorder-ms not negative, and OUT must not exist")
    generate(args)


if __name__ == "__main__":
    main()

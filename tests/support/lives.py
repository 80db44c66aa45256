"""A job whose plan changes at each phase of its life, its input, and the rows that it has written in the end.

::

    phase  0         1       2              3             4        5              6           7
    what   deduped,  views,  visits with    longer        other    orders of a    other       no shop
    is     priced,   a step  a further      windows and   names    shop, a        partitions
    new    totals,   more    aggregate      gaps of       of       source more
           visits                           sessions      steps

Each phase has 100 seconds of event time, in two parts. Elements are out of order within a part, and none is late.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import pyarrow.parquet as pq
from psycopg.sql import SQL, Identifier

from tests.kafka.topics import Topics, in_json
from tests.support.files import put
from windrow import DataStream, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import DatabaseSink, JsonFileSink, ParquetFileSink
from windrow.sources import JsonFileSource
from windrow.windows import EventTimeSessionWindows, TumblingEventTimeWindows

__all__ = [
    "PARTS",
    "RENAMED",
    "RESCALED",
    "WITH_NAMES",
    "Ends",
    "differences",
    "expected",
    "files_alone",
    "found",
    "job",
    "send",
    "with_services",
]

# Any in this module: sources, sinks and rows of every type.

PARTS: Final = 2
"""The parts of a phase's input."""
RENAMED: Final = {"totals": "revenue", "visits": "sessions"}
"""The names that steps get at the fourth change."""
WITH_VIEWS, WITH_MILLIS, WITH_LONGER, WITH_NAMES, WITH_SHOP, RESCALED, WITHOUT_SHOP = range(1, 8)

_PART: Final = 50_000  # milliseconds of event time
_TOTALS: Final = 20_000
_VIEWS: Final = (20_000, 30_000)
# No session ends where an element begins, all of which come at full seconds.
_GAPS: Final = (5_500, 8_500)
_REMEMBERED: Final = 150_000
_NAMES: Final = ("ann", "bob", "cid", "dot", "eve")
_T = TypeVar("_T")


class Order(NamedTuple):
    number: int
    customer: str
    at: int
    amount: int


class Rate(NamedTuple):
    customer: str
    at: int
    percent: int


class Click(NamedTuple):
    user: str
    at: int
    page: str
    millis: int


class Priced(NamedTuple):
    number: int
    customer: str
    at: int
    cents: int


class Total(NamedTuple):
    customer: str
    start: int
    cents: int


class Visit(NamedTuple):
    user: str
    start: int
    end: int
    clicks: int


class LongVisit(NamedTuple):
    user: str
    start: int
    end: int
    clicks: int
    # Visits lack it in the first phases, and a visit of which all clicks came before has none.
    millis: int | None = None


class Views(NamedTuple):
    page: str
    start: int
    end: int
    views: int


@dataclass(frozen=True)
class Ends:
    """Where a job reads and writes: in folders, or in topics and tables as well.

    Attributes:
        folder: The folder of its files.
        servers: Where a broker answers; an empty text: clicks, orders of the shop and visits are in files.
        database: The address of a database; an empty text: totals and views are in files.
    """

    folder: Path
    servers: str = ""
    database: str = ""

    @property
    def topics(self) -> Topics:
        return Topics(self.servers, self.folder.name)

    def table(self, name: str) -> str:
        return f"{self.folder.name}_{name}".replace("-", "_")


def files_alone(folder: Path) -> Ends:
    """A job that reads files and writes files."""
    return Ends(folder)


def with_services(folder: Path, servers: str, database: str) -> Ends:
    """A job with topics, which are made here, and tables."""
    ends = Ends(folder, servers, database)
    for name, partitions in (("clicks", 2), ("shop", 1), ("visits", 2)):
        ends.topics.make(name, partitions)
    return ends


def job(folder: str, phase: int, servers: str = "", database: str = "") -> Pipeline:
    """The job as it is in a phase, for a command line, too."""
    ends = Ends(Path(folder), servers, database)
    orders = _timed(ends, "orders", Order)
    if WITH_SHOP <= phase < WITHOUT_SHOP:
        orders = orders.union(_timed(ends, "shop", Order))
    rates, clicks = _timed(ends, "rates", Rate), _timed(ends, "clicks", Click)
    once = orders.key_by(lambda order: order.customer).distinct(
        lambda order: order.number, within=timedelta(milliseconds=_REMEMBERED), name="once"
    )
    priced = (
        once.key_by(lambda order: order.customer)
        .as_of_join(rates.key_by(lambda rate: rate.customer))
        .apply(
            lambda order, rate: Priced(order.number, order.customer, order.at, order.amount * rate.percent),
            name="priced",
        )
    )
    totals = (
        priced.key_by(lambda each: each.customer)
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=_TOTALS)))
        .aggregate(
            agg.into(Total, agg.key(), agg.window_start(), agg.sum(lambda each: each.cents)),
            name=_name("totals", phase),
        )
    )
    sessions = clicks.key_by(lambda click: click.user).window(
        EventTimeSessionWindows.with_gap(timedelta(milliseconds=_GAPS[phase >= WITH_LONGER]))
    )
    parts: list[Any] = [agg.key(), agg.window_start(), agg.window_end(), agg.count()]
    kind: type[Visit | LongVisit] = Visit
    if phase >= WITH_MILLIS:
        kind = LongVisit
        parts.append(agg.sum(_millis))
    visit: Any = agg.into(kind, *parts)
    visits: DataStream[Any] = sessions.aggregate(visit, name=_name("visits", phase))
    streams: dict[str, DataStream[Any]] = {"priced": priced, "totals": totals, "visits": visits}
    if phase >= WITH_VIEWS:
        streams["views"] = (
            clicks.key_by(lambda click: click.page)
            .window(TumblingEventTimeWindows.of(timedelta(milliseconds=_VIEWS[phase >= WITH_LONGER])))
            .aggregate(agg.into(Views, agg.key(), agg.window_start(), agg.window_end(), agg.count()), name="views")
        )
    return Pipeline(
        "life", *(stream.sink_to(_sink(ends, name), name=f"into {name}") for name, stream in streams.items())
    )


def _millis(click: Click) -> int:
    return click.millis


def _name(step: str, phase: int) -> str:
    return RENAMED[step] if phase >= WITH_NAMES else step


def _timed(ends: Ends, name: str, kind: type[_T]) -> DataStream[_T]:
    source: Any = JsonFileSource(ends.folder / name, kind, files_per_batch=1)
    if ends.servers and name in ("clicks", "shop"):
        source = KafkaSource(ends.servers, f"{ends.topics.prefix}-{name}", kind, starting_offsets="earliest")
    elif not (ends.folder / name).exists():
        (ends.folder / name).mkdir(parents=True)
    stream: DataStream[Any] = from_source(source, name=name)
    strategy = WatermarkStrategy[Any].for_bounded_out_of_orderness(timedelta(milliseconds=_PART))
    return stream.assign_timestamps_and_watermarks(strategy, timestamp=lambda each: each.at, name=f"times of {name}")


def _sink(ends: Ends, name: str) -> Any:
    if name == "priced":
        return ParquetFileSink[Any](ends.folder / name)
    if ends.servers and name == "visits":
        return KafkaSink[Any](ends.servers, f"{ends.topics.prefix}-{name}", key=lambda visit: visit.user)
    if ends.database and name != "visits":
        return DatabaseSink[Any](ends.database, ends.table(name))
    return JsonFileSink[Any](ends.folder / name)


def send(ends: Ends, phase: int, part: int) -> None:
    """Gives the job a part of a phase's input; to the shop, too, from the phase on that reads it."""
    second = phase * PARTS + part
    for name, elements in _input(phase, part).items():
        if name == "shop" and phase < WITH_SHOP:
            continue
        if ends.servers and name in ("clicks", "shop"):
            topic = f"{ends.topics.prefix}-{name}"
            partitions = 2 if name == "clicks" else 1
            for partition in range(partitions):
                records = in_json(each._asdict() for each in elements[partition::partitions])
                ends.topics.send(topic, records, partition=partition)
        else:
            put(ends.folder / name, f"{second:02}", elements, second=second)


def _input(phase: int, part: int) -> dict[str, Sequence[Any]]:
    begin = (phase * PARTS + part) * _PART
    seconds = range(begin, begin + _PART, 1_000)
    chance = random.Random(begin)
    orders, shop = ([*_orders(begin, chance, first)] for first in (0, 1_000_000))
    rates = [
        Rate(name, at, chance.randrange(50, 150))
        for name in _NAMES
        for at in ([0] if begin == 0 else []) + sorted(chance.sample(seconds[1:], 3))
    ]
    clicks = [
        Click(name, at, chance.choice(["/a", "/b", "/c"]), chance.randrange(100))
        for name in _NAMES
        for at in chance.sample(seconds, 12)
    ]
    chance.shuffle(rates)
    chance.shuffle(clicks)
    return {"orders": orders, "shop": shop, "rates": rates, "clicks": clicks}


def _orders(begin: int, chance: random.Random, first: int) -> Iterator[Order]:
    """New orders, and those of some parts ago again: too soon to pass once more, or not; in order of their times."""
    for second in range(0, _PART, 1_000):
        number = first + (begin + second) // 1_000
        ago = chance.choice([0, 0, 0, 7, 40, 90, 155, 190])
        again = number - ago if number - first >= ago else number
        # An order has its customer and its amount for good.
        yield Order(again, _NAMES[again % len(_NAMES)], begin + second, 1 + again % 17)


def expected(phases: int) -> dict[str, Counter[Any]]:
    """What the job has written at the end of so many phases, by plain Python."""
    inputs = {phase: [_input(phase, part) for part in range(PARTS)] for phase in range(phases)}

    def all_of(name: str, since: int = 0, until: int = phases) -> list[Any]:
        return [each for phase in range(since, min(until, phases)) for part in inputs[phase] for each in part[name]]

    priced = [*_priced(all_of("orders") + all_of("shop", WITH_SHOP, WITHOUT_SHOP), all_of("rates"))]
    cents: Counter[tuple[str, int]] = Counter()
    for each in priced:
        cents[each.customer, each.at - each.at % _TOTALS] += each.cents
    views: Counter[tuple[str, int, int]] = Counter()
    for size, since, until in ((_VIEWS[0], WITH_VIEWS, WITH_LONGER), (_VIEWS[1], WITH_LONGER, phases)):
        for click in all_of("clicks", since, until):
            start = click.at - click.at % size
            views[click.page, start, start + size] += 1
    clicks = [(click, phase) for phase in inputs for part in inputs[phase] for click in part["clicks"]]
    return {
        "priced": Counter(priced),
        "totals": Counter(Total(*window, total) for window, total in cents.items()),
        "visits": Counter(_visits(clicks)),
        "views": Counter(Views(*window, count) for window, count in views.items()),
    }


def _priced(orders: Iterable[Order], rates: Iterable[Rate]) -> Iterator[Priced]:
    passed: dict[int, int] = {}
    for order in sorted(orders, key=lambda order: order.at):
        if order.at >= passed.get(order.number, -_REMEMBERED) + _REMEMBERED:
            passed[order.number] = order.at
            known = [rate for rate in rates if rate.customer == order.customer and rate.at <= order.at]
            percent = max(known, key=lambda rate: rate.at).percent
            yield Priced(order.number, order.customer, order.at, order.amount * percent)


def _visits(clicks: Iterable[tuple[Click, int]]) -> Iterator[LongVisit]:
    """Sessions in which each click has the gap of its phase, and counts its time from the phase of the aggregate on."""
    visits: dict[str, list[LongVisit]] = {}
    for click, phase in sorted(clicks):
        of_user = visits.setdefault(click.user, [])
        visit = LongVisit(
            click.user,
            click.at,
            click.at + _GAPS[phase >= WITH_LONGER],
            1,
            click.millis if phase >= WITH_MILLIS else None,
        )
        if of_user and visit.start <= of_user[-1].end:
            last = of_user.pop()
            millis = [each.millis for each in (last, visit) if each.millis is not None]
            end, total = max(last.end, visit.end), sum(millis) if millis else None
            visit = LongVisit(click.user, last.start, end, last.clicks + 1, total)
        of_user.append(visit)
    for of_user in visits.values():
        yield from of_user


def found(ends: Ends) -> dict[str, Counter[Any]]:
    """What the job has written: rows of files and tables, and what is committed in topics."""
    priced = pq.read_table(ends.folder / "priced").to_pylist()
    visits: list[dict[str, Any]]
    if ends.servers:
        visits = [json.loads(record.value or b"") for record in ends.topics.committed(f"{ends.topics.prefix}-visits")]
    else:
        visits = _rows(ends, "visits")
    kinds = {"totals": Total, "views": Views}
    return {
        "priced": Counter(Priced(**row) for row in priced),
        "visits": Counter(LongVisit(**row) for row in visits),
        **{name: Counter(kind(**row) for row in _rows(ends, name)) for name, kind in kinds.items()},
    }


def _rows(ends: Ends, name: str) -> list[dict[str, Any]]:
    if ends.database and name != "visits":
        with psycopg.connect(ends.database) as connection:
            cursor = connection.execute(SQL("SELECT * FROM {}").format(Identifier(ends.table(name))))
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]
    files = [file for file in (ends.folder / name).glob("*") if file.is_file() and not file.name.startswith(("_", "."))]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def differences(ends: Ends, phases: int) -> list[str]:
    """What is missing, wrong or there twice at the end of so many phases; nothing, if all is well."""
    rows, reference = found(ends), expected(phases)
    lines: list[str] = []
    for name, those in reference.items():
        for kind, left in (("missing", those - rows[name]), ("unexpected", rows[name] - those)):
            lines += [f"{kind}: {row} in {name}, {count} times" for row, count in left.items()]
    return lines

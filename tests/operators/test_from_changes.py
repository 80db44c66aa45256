"""Changes of tables: from records with a kind, and the newest row of each key, against tables that are made anew."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.thorough import thorough
from windrow import DataStream, Pipeline, WatermarkStrategy, from_changes, from_collection, from_source
from windrow import aggregates as agg
from windrow.builder.windowed import WindowedStream
from windrow.debezium import ChangeSource, Operation, TableChange
from windrow.errors import InvalidArgumentError, PlanError
from windrow.functions import KeyedProcessContext, KeyedProcessFunction, MapFunction
from windrow.panes import Change, ChangeKind, OnTimeBehavior
from windrow.sinks import CollectSink, DatabaseSink, DeltaSink, FunctionSink
from windrow.sources import CollectionSource, JsonFileSource
from windrow.triggers import ProcessingTimeTrigger, PurgingTrigger, Trigger, after_count, repeatedly
from windrow.windows import (
    CalendarWindows,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: what is no change.


class Product(NamedTuple):
    id: int
    category: str
    price: int


class Category(NamedTuple):
    category: str
    products: int
    price: int


def events(seed: int, count: int = 60) -> list[Change[Product]]:
    """Changes as a compacted topic tells them: of a deleted row nothing but the key matters."""
    chance = random.Random(seed)
    return [
        Change(
            ChangeKind.DELETE if chance.random() < 0.25 else ChangeKind.UPDATE_AFTER,
            Product(chance.randrange(6), chance.choice("abc"), chance.randrange(100)),
        )
        for _ in range(count)
    ]


def whole(changes: list[Change[Product]]) -> Iterator[Change[Product]]:
    """The same with the rows before, as a table's log tells them."""
    rows: dict[int, Product] = {}
    for change in changes:
        before = rows.pop(change.value.id, None)
        if before is not None:
            is_update = change.kind is ChangeKind.UPDATE_AFTER
            yield Change(ChangeKind.UPDATE_BEFORE if is_update else ChangeKind.DELETE, before)
        if change.kind is ChangeKind.UPDATE_AFTER:
            rows[change.value.id] = change.value
            yield Change(ChangeKind.INSERT if before is None else ChangeKind.UPDATE_AFTER, change.value)


def categories(rows: DataStream[Product]) -> DataStream[Change[Category]]:
    """How many products each category has, and what they cost together."""
    return (
        rows.key_by(lambda product: product.category)
        .window(GlobalWindows.create())
        .trigger(repeatedly(after_count(1)))
        .retracting()
        .on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
        .aggregate(agg.into(Category, agg.key(), agg.count(), agg.sum(lambda product: product.price)))
        .changelog()
    )


def table(changes: list[Change[Category]]) -> list[Category]:
    """What is left of the results when the withdrawn ones are gone."""
    left: list[Category] = []
    for change in changes:
        if change.kind.is_withdrawal:
            left.remove(change.value)
        else:
            left.append(change.value)
    return sorted(left)


def newest_rows(changes: list[Change[Product]]) -> dict[int, Product]:
    rows: dict[int, Product] = {}
    for change in changes:
        rows.pop(change.value.id, None)
        if change.kind is ChangeKind.UPDATE_AFTER:
            rows[change.value.id] = change.value
    return rows


def expected(changes: list[Change[Product]]) -> list[Category]:
    rows = newest_rows(changes)
    names = sorted({row.category for row in rows.values()})
    of = {name: [row.price for row in rows.values() if row.category == name] for name in names}
    return [Category(name, len(prices), sum(prices)) for name, prices in of.items()]


@pytest.mark.parametrize("seed", range(30))
def test_a_table_of_tables_is_what_the_newest_rows_make(seed: int) -> None:
    changes = events(seed)
    by_key = from_changes(from_collection(changes), key=lambda product: product.id)
    assert table(categories(by_key).collect()) == expected(changes)
    log = from_changes(from_collection(list(whole(changes))))
    assert table(categories(log).collect()) == expected(changes)


@pytest.mark.parametrize("seed", range(20))
def test_tables_join_by_any_field_of_their_rows(seed: int) -> None:
    chance = random.Random(seed)
    left, right = events(seed, 25), events(seed + 100, 25)
    tables = [
        from_changes(from_source(CollectionSource(each, batch_size=chance.randint(1, 4))), key=lambda row: row.id)
        for each in (left, right)
    ]
    # The price of the left row is the key of the right one, and may change.
    joined = (
        tables[0]
        .left_join(tables[1])
        .where(lambda product: product.price % 6)
        .equal_to(lambda product: product.id)
        .window(GlobalWindows.create())
        .trigger(repeatedly(after_count(1)))
        .retracting()
        .apply(lambda product, other: (product, other))
    )
    held: list[tuple[Product, Product | None]] = []
    for change in joined.changelog().collect():
        if change.kind.is_withdrawal:
            held.remove(change.value)
        else:
            held.append(change.value)
    rows, others = newest_rows(left), newest_rows(right)
    assert sorted(held, key=str) == sorted([(row, others.get(row.price % 6)) for row in rows.values()], key=str)


def test_the_newest_element_of_each_key_is_a_table() -> None:
    products = [Product(1, "a", 5), Product(2, "a", 7), Product(1, "b", 6), Product(2, "a", -1)]
    newest = from_collection(products).key_by(lambda product: product.id).latest(is_deleted=lambda each: each.price < 0)
    assert newest.changelog(lambda kind, product: (kind.value, product.price)).collect() == [
        *(("+I", 5), ("+I", 7), ("-U", 5), ("+U", 6), ("-D", 7))
    ]
    assert table(categories(newest).collect()) == [Category("b", 1, 6)]


def test_a_withdrawn_row_has_the_time_with_which_it_came() -> None:
    strategy = WatermarkStrategy[tuple[str, int, int]].for_bounded_out_of_orderness(timedelta(minutes=1))
    prices = from_collection([("tea", 5, 1_000), ("cup", 9, 11_000), ("tea", 6, 12_000)])
    timed = prices.assign_timestamps_and_watermarks(strategy, timestamp=lambda price: price[2])
    newest = timed.key_by(lambda price: price[0]).latest()
    windows = newest.key_by(lambda price: 0).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    sums = windows.aggregate(agg.combine(agg.window_start(), agg.sum(lambda price: price[1]), agg.count()))
    assert sums.collect() == [(10_000, 15, 2)]
    lists = windows.apply(lambda key, window, rows: [(window.start, [row[:2] for row in rows])])
    assert lists.collect() == [(10_000, [("cup", 9), ("tea", 6)])]


@pytest.mark.parametrize("seed", range(10))
def test_a_ranking_of_a_table_changes_with_it(seed: int, tmp_path: Path) -> None:
    changes = events(seed)
    best = (
        from_changes(from_collection(changes, element_type=Change[Product]), key=lambda product: product.id)
        .window_all(GlobalWindows.create())
        .trigger(repeatedly(after_count(1)))
        .retracting()
        .on_time_behavior(OnTimeBehavior.FIRE_IF_NON_EMPTY)
        .aggregate(agg.top_k(3, by=lambda product: (product.price, product.id)))
        .flat_map(lambda top: [Product(place, each.category, each.price) for place, each in enumerate(top)])
        .returns(Product)
    )
    rows = {change.value.id: change.value for change in changes}
    kinds = {change.value.id: change.kind for change in changes}
    left = [row for id_, row in rows.items() if kinds[id_] is ChangeKind.UPDATE_AFTER]
    top = sorted(left, key=lambda row: (row.price, row.id), reverse=True)[:3]
    expected_rows = [(place, row.category, row.price) for place, row in enumerate(top)]
    held: list[Product] = []
    for change in best.changelog().collect():
        if change.kind.is_withdrawal:
            held.remove(change.value)
        else:
            held.append(change.value)
    assert sorted(map(tuple, held)) == expected_rows
    database = tmp_path / "ranking.db"
    LocalRunner().run(Pipeline("p", best.sink_to(DatabaseSink(f"sqlite:///{database}", "ranking", key="id"))))
    with closing(sqlite3.connect(database)) as connection:
        stored = connection.execute("SELECT id, category, price FROM ranking ORDER BY id").fetchall()
    assert stored == expected_rows


def test_the_name_is_that_of_the_step_with_the_state() -> None:
    rows = from_changes(from_collection(events(1)), key=lambda product: product.id, name="products")
    (step,) = [step for step in Pipeline("p", rows.changelog().sink_to(CollectSink())).steps if step.node.is_keyed]
    assert step.node.name == "products"


class Opened(MapFunction[Product, int]):
    def map(self, value: Product) -> int:
        return value.id


def test_functions_that_nobody_would_open_are_refused() -> None:
    products = from_collection([Product(1, "a", 5)])
    with pytest.raises(InvalidArgumentError, match="latest takes a plain function, whose open and close nobody"):
        products.key_by(lambda product: product.id).latest(is_deleted=Opened())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="key takes a plain function"):
        from_changes(from_collection(events(1)), key=Opened())


def test_a_field_says_what_a_record_does() -> None:
    records = from_collection([("+I", 1), ("-D", 1), ("+I", 2)])
    rows = from_changes(records, op=lambda record: ChangeKind(record[0]), row=lambda record: record[1])
    assert rows.changelog(lambda kind, value: (kind.value, value)).collect() == [*(("+I", 1), ("-D", 1), ("+I", 2))]


@pytest.mark.parametrize(
    "with_key",
    [True, thorough(False, reason="the table without a key is one step less; the interpreter has both above")],
)
def test_spark_makes_the_same_table_over_a_restart(spark: SparkSession, tmp_path: Path, with_key: bool) -> None:
    changes = events(7)
    records = changes if with_key else list(whole(changes))
    folder = tmp_path / "changes"
    folder.mkdir()
    source = from_source(JsonFileSource(folder, Change[Product], files_per_batch=1))
    rows = from_changes(source, key=lambda product: product.id) if with_key else from_changes(source)
    batches: dict[int, list[Change[Category]]] = {}

    def write(batch: int, results: Sequence[Change[Category]]) -> None:
        batches[batch] = list(results)

    pipeline = Pipeline("tables", categories(rows).sink_to(FunctionSink(write)))
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    for number, part in enumerate((records[:20], records[20:])):
        lines = [json.dumps({"kind": each.kind.value, "value": each.value._asdict()}) for each in part]
        (folder / f"{number}.json").write_text("".join(f"{line}\n" for line in lines))
        runner.run(pipeline, drain=False)
    assert len(batches) >= 2
    assert table([change for batch in sorted(batches) for change in batches[batch]]) == expected(changes)


def test_changes_are_made_of_classes_with_arguments() -> None:
    assert Change[int](ChangeKind.INSERT, 1) == Change(ChangeKind.INSERT, 1)
    assert TableChange[int](Operation.TRUNCATE, ChangeSource("shop", 0)).after is None


def test_debezium_tells_changes() -> None:
    source = ChangeSource("shop", 0)
    one, two = Product(1, "a", 5), Product(1, "b", 6)
    told = [
        TableChange(Operation.READ, source, None, one),
        TableChange(Operation.UPDATE, source, one, two),
        TableChange(Operation.UPDATE, source, None, two),
        TableChange(Operation.DELETE, source, two, None),
        TableChange[Product](Operation.TRUNCATE, source),
    ]
    kinds = [[change.kind.value for change in each.changes()] for each in told]
    assert kinds == [["+I"], ["-U", "+U"], ["+U"], ["-D"], []]
    rows = from_changes(from_collection(told).flat_map(TableChange.changes), key=lambda product: product.id)
    assert table(categories(rows).collect()) == []


class Counts(KeyedProcessFunction[int, Product, int]):
    def process_element(self, value: Product, context: KeyedProcessContext[int]) -> list[int]:
        return [1]


def test_what_takes_rows_for_good_is_refused() -> None:
    rows = from_changes(from_collection(events(1)))
    with pytest.raises(PlanError, match="would write withdrawals as results: changes by from_changes are upstream"):
        Pipeline("p", rows.sink_to(CollectSink[Product]()))
    counts = rows.key_by(lambda product: product.id).process(Counts())
    with pytest.raises(PlanError, match="takes elements for good, and changes by from_changes upstream withdraw some"):
        Pipeline("p", counts.sink_to(CollectSink[int]()))
    twice = from_changes(rows.map(lambda product: Change(ChangeKind.INSERT, product)))
    with pytest.raises(PlanError, match="takes elements for good"):
        Pipeline("p", twice.changelog().sink_to(CollectSink[Change[Product]]()))


CHANGES = from_collection(events(1), element_type=Change[Product])
TABLE = from_collection([Product(1, "a", 5)]).key_by(lambda product: product.id).latest()
SESSIONS = (
    from_collection([Product(1, "a", 5)])
    .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), timestamp=lambda product: product.price)
    .key_by(lambda product: product.category)
    .window(EventTimeSessionWindows.with_gap(timedelta(minutes=1)))
    .retracting()
)
SESSION_ROWS = SESSIONS.aggregate(agg.into(Category, agg.key(), agg.window_start(), agg.count()))
STAMPED = (
    from_collection([Product(1, "a", 5)])
    .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks(), timestamp=lambda product: product.price)
    .key_by(lambda product: product.category)
)
GROWING = STAMPED.window(CumulativeEventTimeWindows.of(timedelta(minutes=2), timedelta(minutes=1))).retracting()
APIA = STAMPED.window(CalendarWindows.days("Pacific/Apia", 2, 1)).retracting()


class Bounds(NamedTuple):
    category: str
    start: int
    end: int
    products: int


def with_bounds(windows: WindowedStream[Product, str, TimeWindow]) -> DataStream[Bounds]:
    return windows.aggregate(agg.into(Bounds, agg.key(), agg.window_start(), agg.window_end(), agg.count()))


def with_start(windows: WindowedStream[Product, str, TimeWindow]) -> DataStream[Category]:
    return windows.aggregate(agg.into(Category, agg.key(), agg.window_start(), agg.count()))


TOGETHER = from_changes(CHANGES)


@pytest.mark.parametrize(
    ("rows", "key", "missing"),
    [
        (TABLE, "id", None),
        (TABLE, ("id", "category"), None),
        (TABLE, "category", "changes by latest tell rows apart by id too"),
        (TABLE.filter(lambda product: product.price > 1).union(), "category", "by id too"),
        (from_changes(CHANGES, key=lambda product: (product.id, product[1])), "id", "by category too"),
        (SESSION_ROWS, ("category", "products"), None),
        (SESSION_ROWS, "category", "windows that retract tell rows apart by products too"),
        (with_bounds(GROWING), ("category", "end"), None),
        (with_bounds(GROWING), ("category", "start"), "tell rows apart by end too"),
        (with_start(GROWING), ("category", "products"), "nothing in the results tells the windows of a key apart"),
        (with_bounds(APIA), ("category", "start"), None),
        (with_bounds(APIA), ("category", "end"), "tell rows apart by start too"),
        (with_start(APIA), ("category", "products"), None),
        # What the plan cannot know.
        (with_start(GROWING), ("category", "price"), None),
        (TABLE.map(lambda product: Product(product.id, product.category, 0)), "category", None),
        (from_changes(CHANGES, key=lambda product: product.id % 10), "category", None),
        (TOGETHER, "category", None),
    ],
)
def test_a_sink_that_would_delete_rows_of_others_is_refused(
    rows: DataStream[Any], key: str | tuple[str, ...], missing: str | None
) -> None:
    sinks: list[Any] = [DatabaseSink("sqlite:///rows.db", "rows", key=key), DeltaSink("rows", key=key)]
    for sink in sinks:
        if missing is None:
            Pipeline("p", rows.sink_to(sink))
        else:
            with pytest.raises(PlanError, match=missing):
                Pipeline("p", rows.sink_to(sink))


@pytest.mark.parametrize("trigger", [ProcessingTimeTrigger.create(), PurgingTrigger.of(ProcessingTimeTrigger.create())])
def test_windows_in_event_time_that_the_clock_fires_again_are_refused(trigger: Trigger[Product, TimeWindow]) -> None:
    stamped = from_collection([Product(1, "a", 5)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks(), timestamp=lambda product: product.price
    )
    rows = stamped.key_by(lambda product: product.id).latest().key_by(lambda product: product.category)
    counts = rows.window(TumblingEventTimeWindows.of(timedelta(minutes=1))).trigger(trigger).count(with_key=True)
    with pytest.raises(PlanError, match=r"would keep its result|it would count twice"):
        counts.collect()


def test_sessions_of_rows_that_may_be_withdrawn_are_refused() -> None:
    stamped = from_collection([Product(1, "a", 5)]).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks(), timestamp=lambda product: product.price
    )
    rows = stamped.key_by(lambda product: product.id).latest().key_by(lambda product: product.category)
    sessions = rows.window(EventTimeSessionWindows.with_gap(timedelta(minutes=1))).retracting().count()
    with pytest.raises(PlanError, match="would stay one where the row between them is withdrawn"):
        Pipeline("p", sessions.changelog().sink_to(CollectSink[Change[int]]()))


def test_records_that_say_nothing_are_refused() -> None:
    numbers: Any = from_collection([1, 2])
    with pytest.raises(InvalidArgumentError, match="from_changes needs to know what the records do"):
        from_changes(numbers)
    with pytest.raises(InvalidArgumentError, match="op"):
        from_changes(numbers, op=1)  # type: ignore[call-overload]
    unknown = from_changes(numbers.map(copy))
    with pytest.raises(InvalidArgumentError, match="from_changes takes records of changes"):
        unknown.changelog().collect()
    wrong: Any = lambda record: "+I"  # noqa: E731  # what users write
    with pytest.raises(InvalidArgumentError, match="op of from_changes has to say what a record does"):
        from_changes(numbers, op=wrong, key=lambda number: number).changelog().collect()
    with pytest.raises(InvalidArgumentError, match="needs the row, or the key of the row that is withdrawn"):
        from_changes(numbers, op=lambda number: ChangeKind.INSERT)  # type: ignore[call-overload]

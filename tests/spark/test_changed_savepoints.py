"""Changes of a plan between a savepoint and the run that goes on from it: most of the page's table, executed.

::

    files   0 1           | 2 3
    plan    Before        | Changed, on other partitions
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.spark.comparison import millis
from tests.spark.test_columns import Reading, readings, stamped, write
from windrow import KeyedStream, Pipeline
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, InvalidArgumentError, WindrowWarning
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.state import ValueStateDescriptor
from windrow.windows import EventTimeSessionWindows, GlobalWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.savepoint import read, take
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")

# Any in this module: results of every type.

BOUNDARY = 200
"""The first timestamp of the files that follow the savepoint, but for their disorder."""
DISORDER = 60


class Visit(NamedTuple):
    sensor: str | None
    start: int
    end: int
    readings: int


class LongVisit(NamedTuple):
    sensor: str | None
    start: int
    end: int
    hottest: float | None
    readings: int


class Counted(NamedTuple):
    sensor: str | None
    readings: int


class Seen(KeyedProcessFunction[str | None, Reading, tuple[str | None, int]]):
    """Counts the readings of a sensor."""

    count = ValueStateDescriptor("count", int)

    def process_element(
        self, value: Reading, context: KeyedProcessContext[str | None]
    ) -> Iterable[tuple[str | None, int]]:
        state = context.get_state(self.count)
        count = (state.value() or 0) + 1
        state.update(count)
        yield value.sensor, count


def celsius(reading: Reading) -> float:
    return reading.celsius


def means(keyed: KeyedStream[Reading, str | None], name: str) -> Any:
    mean: Any = agg.combine(agg.key(), agg.window_start(), agg.mean(celsius))
    return keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30))).aggregate(mean, name=name)


def totals(keyed: KeyedStream[Reading, str | None], name: str | None, size: int) -> Any:
    total: Any = agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count())
    return keyed.window(TumblingEventTimeWindows.of(millis(size))).aggregate(total, name=name)


def visits(keyed: KeyedStream[Reading, str | None], *, is_long: bool) -> Any:
    windows = keyed.window(EventTimeSessionWindows.with_gap(millis(3))).allowed_lateness(millis(30))
    visit: Any = agg.into(Visit, sensor=agg.key(), start=agg.window_start(), end=agg.window_end(), readings=agg.count())
    if is_long:
        visit = agg.into(
            LongVisit,
            sensor=agg.key(),
            start=agg.window_start(),
            end=agg.window_end(),
            hottest=agg.max(celsius),
            readings=agg.count(),
        )
    return windows.aggregate(visit, name="visits")


class Plan:
    """Steps on columns, and ``seen`` on objects."""

    def __init__(self, folder: Path, *, is_changed: bool = False, **other: Any) -> None:
        keyed = stamped(readings(folder)).key_by(lambda r: r.sensor)
        streams = {
            "averages" if is_changed else "means": means(keyed, "averages" if is_changed else "means"),
            "totals": totals(keyed, "totals", 80 if is_changed else 50),
            "visits": visits(keyed, is_long=is_changed),
            "seen": keyed.process(Seen(), name="seen"),
            "fresh" if is_changed else "gone": totals(keyed, "fresh" if is_changed else "gone", 100),
        }
        streams |= {name: make(keyed) for name, make in other.items()}
        self.sinks = {name: CollectSink[Any]() for name in streams}
        self.pipeline = Pipeline("changes", *(stream.sink_to(self.sinks[name]) for name, stream in streams.items()))

    def of(self, result: Any) -> dict[str, list[Any]]:
        found = {name: result.collected(sink) for name, sink in self.sinks.items()}
        late = [counts.get("late_records_dropped", 0) for step, counts in result.counters.items() if "totals" in step]
        return found | {"late for totals": late}


class Stopped(NamedTuple):
    """What a run over the first two of four files has given, and its savepoint."""

    files: Path
    saved: Path
    results: dict[str, list[Any]]


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    folder = tmp_path_factory.mktemp("stopped")
    files, saved = folder / "in", folder / "saved"
    write(files, range(2))
    plan = Plan(files)
    result = SparkRunner(spark, checkpoint=folder / "old", partitions=2).run(plan.pipeline, drain=False)
    take(folder / "old", plan.pipeline, saved, spark=spark)
    write(files, range(2, 4))
    return Stopped(files, saved, plan.of(result))


def in_order(elements: Iterable[Any]) -> list[Any]:
    return sorted(elements, key=repr)


def rounded(elements: Iterable[Any]) -> list[Any]:
    """The elements in order; the last bits of a deviation depend on how rows were merged."""
    return in_order(
        each._replace(spread=each.spread and round(each.spread, 9)) if isinstance(each, Grown) else each
        for each in elements
    )


def undisturbed(folder: Path) -> dict[str, list[Any]]:
    plan = Plan(folder)
    return plan.of(LocalRunner().run(plan.pipeline))


def test_a_changed_plan_goes_on_from_a_savepoint(spark: SparkSession, tmp_path: Path, stopped: Stopped) -> None:
    folder, saved, before = stopped
    forms = read(saved)
    assert {step: forms.form(step) for step in forms} == {
        "means": "columns",
        "totals": "columns",
        "visits": "columns",
        "seen": "objects",
        "gone": "columns",
    }
    plan = Plan(folder, is_changed=True)
    renamed = {"means": "averages"}
    runner = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=saved, partitions=3, renamed=renamed)
    with pytest.warns(WindrowWarning, match="the plan has changed since the savepoint") as caught:
        first = plan.of(runner.run(plan.pipeline, drain=False))
    (warning,) = caught
    for said in (
        r"gone is gone, and so is its state",
        r"is new, and begins empty",
        r"stay as TumblingEventTimeWindows(size=50 ms) made them; new ones are TumblingEventTimeWindows(size=80 ms)",
        r"and aggregate 1 (hottest) begins empty in them",
        r"its state becomes Python objects, since its columns would be others",
    ):
        assert said in str(warning.message)
    local = LocalRunner(savepoint=saved, renamed=renamed)
    with pytest.warns(WindrowWarning, match="gone is gone, and so is its state"):
        debugged = plan.of(local.run(plan.pipeline))
    # The checkpoint goes on by itself, and says nothing again.
    second = plan.of(runner.run(plan.pipeline))
    rest = {name: [*first[name], *second[name]] for name in first}
    assert {name: in_order(each) for name, each in debugged.items() if name in plan.sinks} == {
        name: in_order(rest[name]) for name in plan.sinks
    }
    assert sum(debugged["late for totals"]) == sum(rest["late for totals"])
    expected = undisturbed(folder)
    assert in_order(before["means"] + rest["averages"]) == in_order(expected["means"])
    assert in_order(before["seen"] + rest["seen"]) == in_order(expected["seen"])
    # Open windows keep their bounds, and each element is in one window as before.
    sizes = {end - start for _, start, end, _ in rest["totals"]}
    assert sizes == {50, 80}
    assert {end - start for _, start, end, _ in rest["totals"] if start >= BOUNDARY + 50} == {80}
    counted = sum(count for *_, count in [*before["totals"], *rest["totals"]])
    assert counted + sum(before["late for totals"] + rest["late for totals"]) == 400
    # The aggregates that were there go on, and the new one has what came since.
    old = [Visit(each.sensor, each.start, each.end, each.readings) for each in rest["visits"]]
    assert in_order(before["visits"] + old) == in_order(expected["visits"])
    hottest = {each.hottest for each in rest["visits"] if each.start >= BOUNDARY}
    assert None not in hottest
    assert any(each.hottest is None for each in rest["visits"])
    # A new step has no window from before; those that begin later are whole.
    whole = [each for each in expected["gone"] if each[1] >= BOUNDARY + DISORDER]
    assert in_order(each for each in rest["fresh"] if each[1] >= BOUNDARY + DISORDER) == in_order(whole)
    assert len(whole) > 3
    assert min(start for _, start, _, _ in rest["fresh"]) >= BOUNDARY - 100


def test_another_gap_and_another_slide(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"

    def plan(gap: int, slide: int) -> tuple[Pipeline, CollectSink[Any], CollectSink[Any]]:
        keyed = stamped(readings(folder)).key_by(lambda r: r.sensor)
        count: Any = agg.combine(agg.key(), agg.window_start(), agg.window_end(), agg.count())
        sessions = keyed.window(EventTimeSessionWindows.with_gap(millis(gap))).aggregate(count, name="sessions")
        slides = keyed.window(SlidingEventTimeWindows.of(millis(90), millis(slide))).aggregate(count, name="slides")
        of_sessions, of_slides = CollectSink[Any](), CollectSink[Any]()
        return Pipeline("p", sessions.sink_to(of_sessions), slides.sink_to(of_slides)), of_sessions, of_slides

    write(folder, range(2))
    before, *sinks_before = plan(3, 30)
    result = SparkRunner(spark, checkpoint=tmp_path / "old", partitions=2).run(before, drain=False)
    given = [result.collected(sink) for sink in sinks_before]
    take(tmp_path / "old", before, tmp_path / "saved", spark=spark)
    write(folder, range(2, 4))
    after, *sinks = plan(6, 45)
    runner = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=tmp_path / "saved")
    with pytest.warns(WindrowWarning, match="the plan has changed since the savepoint"):
        first = runner.run(after, drain=False)
    (tmp_path / "saved").rename(tmp_path / "gone")
    second = runner.run(after)  # the checkpoint needs the savepoint no longer
    whole, *sinks_of_whole = plan(6, 45)
    expected = LocalRunner().run(whole)
    for sink, of_whole, kept in zip(sinks, sinks_of_whole, given, strict=True):
        rest = [*first.collected(sink), *second.collected(sink)]
        later = [each for each in expected.collected(of_whole) if each[1] >= BOUNDARY + DISORDER]
        assert in_order(each for each in rest if each[1] >= BOUNDARY + DISORDER) == in_order(later)
        assert later
        assert not {each[:3] for each in rest} & {each[:3] for each in kept}


def test_state_in_columns_becomes_objects(spark: SparkSession, tmp_path: Path, stopped: Stopped) -> None:
    plan = Plan(stopped.files)
    runner = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=stopped.saved, columnar=False)
    with pytest.warns(WindrowWarning, match="its state becomes Python objects, since columns are turned off"):
        rest = plan.of(runner.run(plan.pipeline))
    expected = undisturbed(stopped.files)
    late = "late for totals"
    assert sum(stopped.results[late] + rest[late]) == sum(expected.pop(late))
    for name in expected:
        assert in_order(stopped.results[name] + rest[name]) == in_order(expected[name])


class Grown(NamedTuple):
    sensor: str | None
    readings: int
    highest: str | None
    different: int
    mean: float | None
    spread: float | None
    rough: int
    median: float | None
    total: int | None
    first: float | None = None
    last: int | None = None
    best: int | None = None
    top: list[float] = []  # noqa: RUF012  # nobody changes it
    numbers: list[int | None] = []  # noqa: RUF012


@pytest.mark.parametrize("kind", ["sliding", "session", "global"])
def test_new_aggregates_of_all_kinds_begin_empty_on_columns(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"

    def windows(keyed: KeyedStream[Any, Any]) -> Any:
        if kind == "global":
            return keyed.window(GlobalWindows.create_with_end_of_stream_trigger())
        if kind == "session":
            return keyed.window(EventTimeSessionWindows.with_gap(millis(4))).allowed_lateness(millis(40))
        return keyed.window(SlidingEventTimeWindows.of(millis(90), millis(30))).allowed_lateness(millis(40))

    def plan(*, is_grown: bool) -> tuple[Pipeline, list[CollectSink[Any]]]:
        keyed = stamped(readings(folder)).key_by(lambda r: r.sensor)
        aggregates: dict[str, Any] = {
            "sensor": agg.key(),
            "readings": agg.count(),
            "highest": agg.max(lambda r: r.sensor),
            "different": agg.count_distinct(lambda r: r.number),
            "mean": agg.mean(celsius),
            "spread": agg.stddev(celsius),
            "rough": agg.approx_count_distinct(lambda r: r.number),
            "median": agg.approx_quantile(celsius, 0.5),
            "total": agg.sum(lambda r: r.number),
        }
        if kind != "session":
            # Sessions merge by the order of their birth, which nothing keeps without such aggregates.
            aggregates |= {
                "first": agg.first(celsius),
                "last": agg.last(lambda r: r.number),
                "best": agg.max_by(celsius, lambda r: r.number),
                "top": agg.top_k(3, celsius, celsius),
                "numbers": agg.collect_list(lambda r: r.number),
            }
        grown: Any = agg.into(Grown, **aggregates)
        counts: Any = agg.into(Counted, agg.key(), agg.count())
        results = windows(keyed).aggregate(grown if is_grown else counts, name="grown")
        streams = [results]
        if is_grown and kind != "global":
            # What is None in a window that was open goes on in columns.
            by_sensor = results.key_by(lambda r: r.sensor)
            total: Any = agg.combine(agg.key(), agg.sum(lambda r: r.total), agg.count(lambda r: r.mean))
            streams.append(
                by_sensor.window(TumblingEventTimeWindows.of(millis(40))).aggregate(total, name="of results")
            )
        sinks = [CollectSink[Any]() for _ in streams]
        return Pipeline("g", *(stream.sink_to(sink) for stream, sink in zip(streams, sinks, strict=True))), sinks

    write(folder, range(2))
    before, _ = plan(is_grown=False)
    SparkRunner(spark, checkpoint=tmp_path / "old", partitions=2).run(before, drain=False)
    take(tmp_path / "old", before, tmp_path / "saved", spark=spark)
    write(folder, range(2, 4))
    after, sinks = plan(is_grown=True)
    runner = SparkRunner(spark, checkpoint=tmp_path / "new", savepoint=tmp_path / "saved", partitions=3)
    with pytest.warns(WindrowWarning, match=r"and aggregate 2 \(highest\), .*, 8 \(total\)") as caught:
        result = runner.run(after, drain=False)
    assert not any("becomes Python objects" in str(each.message) for each in caught)
    take(tmp_path / "new", after, tmp_path / "again", spark=spark)
    assert read(tmp_path / "again").form("grown") == "columns"
    rest = runner.run(after)
    if kind == "global":  # its state has no form in objects
        whole = LocalRunner().run(after).collected(sinks[0])
        for number in range(2):
            (folder / f"{number}.parquet").unlink()
        fresh = {each.sensor: each for each in LocalRunner().run(after).collected(sinks[0])}
        assert rounded(rest.collected(sinks[0])) == rounded(
            fresh[each.sensor]._replace(readings=each.readings) for each in whole
        )
        return
    with pytest.warns(WindrowWarning, match="begins empty in them"):
        expected = LocalRunner(savepoint=tmp_path / "saved").run(after)
    for sink in sinks:
        found = [*result.collected(sink), *rest.collected(sink)]
        assert rounded(found) == rounded(expected.collected(sink))
    # Some windows lack what came before; those that began later are whole.
    filled = {*map(repr, expected.collected(sinks[0]))}
    all_whole = {*map(repr, LocalRunner().run(after).collected(sinks[0]))}
    assert filled - all_whole
    assert filled & all_whole


def reduced(keyed: KeyedStream[Reading, str | None]) -> Any:
    return keyed.window(TumblingEventTimeWindows.of(millis(50))).reduce(max, name="totals")


def test_what_cannot_go_on_is_refused_before_the_checkpoint_begins(
    spark: SparkSession, tmp_path: Path, stopped: Stopped
) -> None:
    folder, new = stopped.files, tmp_path / "new"
    runner = SparkRunner(spark, checkpoint=new, savepoint=stopped.saved)
    keyed = stamped(readings(folder)).key_by(lambda r: r.number or 0, int)
    other_keys = Pipeline("changes", totals(keyed, "totals", 50).sink_to(CollectSink[Any]()))  # type: ignore[arg-type]
    for plan, refused in (
        (Plan(folder, totals=reduced).pipeline, r"totals.*function was aggregate Combined and is reduce"),
        (other_keys, r"totals.*key type was"),
    ):
        with pytest.raises(IncompatibleStateError, match=f"the savepoint belongs to another plan(.|\n)*{refused}"):
            runner.run(plan)
    with pytest.raises(InvalidArgumentError, match="renamed names a step that the savepoint does not have"):
        SparkRunner(spark, checkpoint=new, savepoint=stopped.saved, renamed={"nothing": "averages"}).run(
            Plan(folder, is_changed=True).pipeline
        )
    twice = {"means": "averages", "totals": "averages"}
    with pytest.raises(InvalidArgumentError, match="gives several steps of a savepoint one new name"):
        SparkRunner(spark, checkpoint=new, savepoint=stopped.saved, renamed=twice).run(
            Plan(folder, is_changed=True).pipeline
        )
    assert not (new / "plan").exists()
    assert not (new / "restored").exists()

"""How far a run is, as a line of text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow import Pipeline, from_source
from windrow.sinks import CollectSink
from windrow.sources import ArrowSource, CollectionSource, JsonFileSource, Source
from windrow_runtime.bar import Measure
from windrow_runtime.bar.display import html_of
from windrow_runtime.bar.measure import line_of, time_text
from windrow_runtime.inputs.checks import rows_there
from windrow_runtime.operators.topology import topology_of

ALL = Measure(
    rows=1_250_000,
    rows_total=2_000_000,
    batches=5,
    batches_total=8,
    tasks=3,
    tasks_total=4,
    watermark=1_772_366_400_000,
)


@pytest.mark.parametrize(
    ("measure", "part"),
    [
        (Measure(), None),
        (Measure(rows=10, batches=2), None),
        (Measure(tasks=1, tasks_total=2), None),
        (Measure(rows_total=40), 0.0),
        (Measure(rows=10, rows_total=40), 0.25),
        (Measure(batches=1, batches_total=4), 0.25),
        (Measure(batches=1, batches_total=4, tasks=1, tasks_total=2), 0.375),
        (Measure(rows=30, rows_total=40, batches=1, batches_total=4), 0.75),
        (Measure(rows=40, rows_total=40, batches=6, batches_total=4), 1.0),
        (Measure(rows_total=0), 0.0),
    ],
)
def test_the_part_that_is_done(measure: Measure, part: float | None) -> None:
    assert measure.part == part


def test_a_wide_terminal_has_all_there_is_to_tell() -> None:
    assert line_of("clicks", ALL, 10.0, 200) == (
        "clicks  █████████████████░░░░░░░  71 %  1,250,000 of 2,000,000 rows  125,000 rows/s  "
        "batch 6 of 8  task 4 of 4  watermark 2026-03-01 12:00:00"
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (66, "clicks  █████████████████░░░░░░░  71 %"),
        (67, "clicks  █████████████████░░░░░░░  71 %  1,250,000 of 2,000,000 rows"),
        (20, "clicks"),
        (4, "cli…"),
    ],
)
def test_a_narrow_terminal_has_the_first_of_it(width: int, line: str) -> None:
    assert line_of("clicks", ALL, 10.0, width) == line


def test_an_engine_that_starts_and_a_run_without_news_tell_the_time() -> None:
    assert line_of("clicks", None, 3.2, 80) == "clicks  starting for 3 s"
    assert line_of("clicks", Measure(), 3.2, 80) == "clicks  running for 3 s"


def test_the_batches_after_the_last_one_with_rows_have_no_total() -> None:
    assert Measure(rows=1, rows_total=1, batches=3, batches_total=3).texts(1.0)[-1] == "batch 4"


def test_a_name_is_one_line_and_no_markup() -> None:
    assert line_of("a\nb\x1b[31m", Measure(), 0.0, 80).isprintable()
    assert html_of("<b>", ALL, 1.0).startswith("<div><b>&lt;b&gt;</b> <progress value=")


def test_times_beyond_the_calendar_are_shown() -> None:
    assert time_text(2**60) == f"{2**60} ms"
    assert time_text(-1) == "1969-12-31 23:59:59"


TABLE = ArrowSource(pa.table({"value": [1, 2]}), int)
TABLE.table = TABLE.data  # as an engine makes it


@pytest.mark.parametrize(
    ("source", "rows"),
    [(CollectionSource([1, 2, 3], int), 3), (TABLE, 2), (JsonFileSource("nowhere", int), None)],
    ids=["collection", "table", "files"],
)
def test_rows_are_counted_where_nothing_has_to_be_read(source: Source[int], rows: int | None) -> None:
    pipeline = Pipeline("p", from_source(source).sink_to(CollectSink()))
    assert rows_there(topology_of(pipeline).sources) == rows

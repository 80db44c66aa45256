"""What a history keeps of a run, from reports as a run makes them."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.view.recorded import NOON, WINDOW, RecordedRun, clicks_pipeline, history_of, report_of
from windrow import DataStreamSink, Pipeline, from_source
from windrow.builder.keyed_stream import KeyedStream
from windrow.errors import EngineError
from windrow.plan import Form
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow_runtime.view import RunHistory
from windrow_tools.view.follow import Follower


def test_nothing_is_there_before_the_first_batch() -> None:
    snapshot = history_of().snapshot()
    assert (snapshot.state, snapshot.batch, snapshot.newest, snapshot.steps) == ("waiting", None, None, ())


def test_rates_go_by_the_time_between_ends_of_batches() -> None:
    snapshot = history_of({"rows": 400}, {"rows": 3_000}, first=5).snapshot()
    assert [sample.rows_per_second for sample in snapshot.samples] == [500.0, 1_500.0]
    assert [sample.at for sample in snapshot.samples] == [NOON + 10_000, NOON + 12_000]
    assert (snapshot.first_batch, snapshot.batch, snapshot.rows) == (5, 6, 3_400)


def test_a_batch_that_was_taken_is_passed_over() -> None:
    history = history_of({}, {})
    for batch in (1, 0):
        history.add(report_of(history.pipeline, batch))
    assert (history.snapshot().rows, history.version) == (2_000, 2)


def test_a_clock_that_stands_still_leaves_the_duration() -> None:
    history = history_of()
    for batch in (0, 1):
        report = report_of(history.pipeline, batch, rows=900)
        history.add(type(report)(batch, 900, NOON, False, report.steps))
    assert [sample.rows_per_second for sample in history.snapshot().samples] == [1_000.0, 1_000.0]


def test_totals_and_losses_are_told_by_step() -> None:
    history = history_of({"late": 2}, {"late": 3}, forms={WINDOW: Form("on columns")})
    history.count({WINDOW: {"late_records_dropped": 4, "records_of_the_user": 7}})
    snapshot = history.snapshot()
    step = next(each for each in snapshot.steps if each.step == WINDOW)
    assert (step.records_in, step.total_in, step.late, step.dropped) == (1_000, 2_000, 5, {"late_records_dropped": 4})
    assert (snapshot.late, snapshot.malformed, snapshot.dropped) == (15, 1, 4)


def test_reports_tell_what_was_dropped_until_counters_do() -> None:
    dropped = {"late_records_dropped": 2}, {"late_records_dropped": 1, "closed_window_records_dropped": 5}
    history = history_of(*({"dropped": counts} for counts in dropped))
    snapshot = history.snapshot()
    losses = {"late_records_dropped": 3, "closed_window_records_dropped": 5}
    assert [step.dropped for step in snapshot.steps] == [{}, *[losses, {}] * 3]
    assert snapshot.dropped == 3 * 8
    # The counters of a run that somebody follows go back further than the reports that are kept.
    history.count({WINDOW: {"late_records_dropped": 40}})
    assert history.snapshot().dropped == 40


def test_the_watermark_of_a_run_is_the_lowest_and_none_at_the_end_of_the_stream() -> None:
    history = history_of({})
    assert history.snapshot().watermark == NOON - 442_800_000
    history.add(report_of(history.pipeline, 1, ended=True))
    snapshot = history.snapshot()
    assert (snapshot.watermark, snapshot.is_drained, snapshot.windows) == (None, True, ())
    assert [sample.lag_ms for sample in snapshot.samples] == [442_800_000, None]


def test_a_snapshot_is_json() -> None:
    document = json.loads(json.dumps(asdict(history_of({}).snapshot())))
    assert document["steps"][1]["title"] == "4 window <b>a minute</b> & [red]more[/red]"
    assert document["windows"][0]["number"] == 1


def test_steps_have_the_titles_of_the_plan() -> None:
    numbers = from_source(CollectionSource([], int)).key_by(lambda number: number)

    def counted(stream: KeyedStream[int, int]) -> DataStreamSink:
        sums = stream.count_window(3).sum(lambda number: number)
        return sums.sink_to(CollectSink(), name="sums")

    pipeline = Pipeline("scoped", numbers.pipe(counted))
    history = RunHistory(pipeline)
    history.add(report_of(pipeline, 0))
    titles = [step.title for step in history.snapshot().steps]
    assert titles == ["1 source", "3 counted/window", "4 sink counted/sums"]
    assert all(title in pipeline.explain() for title in titles)


def test_a_failure_is_kept_and_the_first_end_counts() -> None:
    history = history_of()
    history.end(EngineError("Spark gave up", given="a lost executor"))
    history.end()
    snapshot = history.snapshot()
    assert snapshot.state == "failed"
    assert snapshot.error is not None
    assert "a lost executor" in snapshot.error


def test_a_waiting_view_is_told_of_a_change_and_of_none() -> None:
    history = history_of()
    assert history.wait(0, 0.0) == 0
    history.add(report_of(history.pipeline, 0))
    assert history.wait(0, 60.0) == 1


def test_a_follower_reads_all_reports_of_a_run_and_its_end() -> None:
    run = RecordedRun(clicks_pipeline())
    run.report(0)
    run.report(1)
    follower = Follower(run)
    assert follower.history.snapshot().batch == 1
    run.report(2)
    run.report(3)
    run.end()
    assert follower.wait(60.0)
    snapshot = follower.history.snapshot()
    assert (snapshot.state, snapshot.batch, len(snapshot.samples)) == ("ended", 3, 4)


def test_a_follower_says_why_a_run_has_failed() -> None:
    run = RecordedRun(clicks_pipeline())
    follower = Follower(run)
    run.end(EngineError("Spark gave up"))
    follower.leave()
    assert (follower.history.snapshot().state, follower.history.snapshot().error) == ("failed", "Spark gave up")


def test_a_follower_that_leaves_has_read_what_there_was() -> None:
    run = RecordedRun(clicks_pipeline())
    follower = Follower(run)
    run.report(0)
    follower.leave()
    assert (follower.history.snapshot().state, follower.history.snapshot().batch) == ("running", 0)


@pytest.mark.parametrize("batches", [121, 300])
def test_a_long_run_keeps_the_newest_batches_and_the_whole_totals(batches: int) -> None:
    snapshot = history_of(*[{"rows": 10}] * batches).snapshot()
    assert (len(snapshot.samples), snapshot.samples[-1].batch, snapshot.rows) == (120, batches - 1, 10 * batches)

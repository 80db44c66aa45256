"""Results with their panes, and changes, in files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.functions import with_pane
from windrow.sinks import ParquetFileSink
from windrow.sources import CollectionSource
from windrow.triggers import after_count, after_watermark
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner


class Play(NamedTuple):
    team: str
    at: int


PLAYS = [Play("red", 1), Play("red", 2), Play("red", 3)]


def test_results_with_their_panes_are_written_as_they_are(tmp_path: Path) -> None:
    plays = from_source(CollectionSource(PLAYS, Play)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda play: play.at
    )
    windows = plays.key_by(lambda play: play.team).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    counts = windows.trigger(after_watermark(early=after_count(2))).aggregate(agg.count(), with_pane())
    LocalRunner().run(Pipeline("panes", counts.sink_to(ParquetFileSink(tmp_path / "out"))))
    rows = [row for file in (tmp_path / "out").rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    window = {"start": 0, "end": 1_000}
    early = {"timing": "early", "index": 0, "nonspeculative_index": -1, "is_first": True, "is_last": False}
    on_time = {"timing": "on time", "index": 1, "nonspeculative_index": 0, "is_first": False, "is_last": True}
    assert sorted(rows, key=lambda row: row["value"]) == [
        {"key": "red", "window": window, "pane": early, "value": 2},
        {"key": "red", "window": window, "pane": on_time, "value": 3},
    ]

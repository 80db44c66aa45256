"""Beam's leaderboard: team scores by the hour, early, on time and late, and running totals of users.

python examples/leaderboard.py leaderboard.svg
"""

import argparse
from datetime import timedelta
from typing import Any, NamedTuple

from windrow import DataStream, aggregates, from_source, panes
from windrow.functions import with_pane
from windrow.triggers import after_count, after_processing_time, after_watermark, repeatedly
from windrow.windows import GlobalWindows, TimeWindow, TumblingEventTimeWindows, Window
from windrow_runtime.pictures import timeline
from windrow_runtime.testing import PushSource, StreamHarness

NOON, MINUTE, HOUR = 1_767_268_800_000, 60_000, timedelta(hours=1)  # 2026-01-01, 12:00 UTC


class Play(NamedTuple):
    user: str
    team: str
    score: int
    minute: int  # since noon, as all minutes here


# By the minute in which they arrive. The last two are late: the watermark is three minutes behind the clock.
ARRIVALS = {
    50: [Play("ada", "red", 3, 48)],
    55: [Play("ada", "red", 5, 53)],
    60: [Play("ada", "red", 4, 60), Play("bob", "blue", 6, 60)],
    65: [Play("ada", "red", 1, 64), Play("bob", "blue", 2, 63), Play("ada", "red", 2, 56), Play("bob", "blue", 3, 59)],
}


def team_scores(plays: DataStream[Play]) -> DataStream[panes.WindowResult[str, TimeWindow, int]]:
    hours = plays.key_by(lambda play: play.team).window(TumblingEventTimeWindows.of(HOUR)).allowed_lateness(2 * HOUR)
    trigger = after_watermark(early=after_processing_time(timedelta(minutes=5)), late=after_count(1))
    return hours.trigger(trigger).accumulating().aggregate(aggregates.sum(lambda play: play.score), with_pane())


def user_totals(plays: DataStream[Play]) -> DataStream[panes.WindowResult[str, Window, int]]:
    trigger = repeatedly(after_processing_time(timedelta(minutes=10)))
    totals = plays.key_by(lambda play: play.user).window(GlobalWindows.create()).trigger(trigger).accumulating()
    return totals.aggregate(aggregates.sum(lambda play: play.score), with_pane())


# Any in both: a play, or a result of either board.
def points(found: Any) -> str:
    return str(found.score if isinstance(found, Play) else found.value)


def play_on(harness: StreamHarness[Play, Any]) -> None:
    for minute in range(50, 71):
        harness.set_processing_time(NOON + minute * MINUTE)
        for play in ARRIVALS.get(minute, []):
            harness.process_element(play, timestamp=NOON + play.minute * MINUTE)
        harness.process_watermark(NOON + (minute - 3) * MINUTE)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", help="where the picture of the team scores goes: a path with .svg or .html")
    path: str = parser.parse_args(arguments).picture
    plays = from_source(source := PushSource(Play))
    with StreamHarness(team_scores(plays).union(user_totals(plays)), source, record=True) as harness:
        play_on(harness)
        print("\n".join(f"{found.key} {found.pane.timing.value} {found.value}" for found in harness.take_values()))
        timeline(harness.recording, step=next(iter(harness.recording.steps)), values=points).save(path)


if __name__ == "__main__":
    main()

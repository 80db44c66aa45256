"""Bytewax's and Quix's alerts on absence: a device that is silent for five minutes, and when it is back."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from tests.ports.answer import Answer
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.patterns import Pattern
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource

MINUTE = 60_000
SILENCE = timedelta(minutes=5)


class Message(NamedTuple):
    device: str
    minute: int


class Match(NamedTuple):
    last: Message


class Back(NamedTuple):
    last: Message
    back: Message


class Alert(NamedTuple):
    device: str
    minute: int
    is_silent: bool


SILENT = Pattern[Message].begin("last").not_followed_by("message").within(SILENCE)
BACK = (
    Pattern[Message].begin("last").next("back", lambda message, matched: message.minute - matched["last"][0].minute > 5)
)
MESSAGES = [("pump", 0), ("fan", 1), ("fan", 4), ("fan", 7), ("fan", 9), ("pump", 10)]
RESULTS = CollectSink[Alert]()


def pipeline(batch_size: int | None) -> Pipeline:
    by_device = (
        from_source(CollectionSource([Message(*each) for each in MESSAGES], batch_size=batch_size))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1)),
            timestamp=lambda message: message.minute * MINUTE,
        )
        .key_by(lambda message: message.device)
    )
    silent = (
        by_device.pattern(SILENT)
        .select(Match, name="silent")
        .map(lambda match: Alert(match.last.device, match.last.minute + 5, is_silent=True))
        .filter(lambda alert: alert.minute <= 10)  # where the records end
    )
    back = (
        by_device.pattern(BACK)
        .select(Back, name="back")
        .map(lambda match: Alert(match.back.device, match.back.minute, is_silent=False))
    )
    return Pipeline("silence", silent.union(back).sink_to(RESULTS))


PIPELINE = pipeline(5)


def answers() -> list[Answer]:
    """The pump sends in minute 0 and in minute 10."""
    return [Answer(RESULTS, [Alert("pump", 5, is_silent=True), Alert("pump", 10, is_silent=False)])]

"""Databricks' device heartbeats: a device of the registry that is silent for five minutes; one alert a site in ten."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from tests.ports.answer import Answer
from windrow import Pipeline, WatermarkStrategy, from_collection, from_source
from windrow.patterns import Pattern
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource

MINUTE = 60_000
SILENCE = 5 * MINUTE
QUIET = 10 * MINUTE
END = 64 * MINUTE  # the newest watermark of the stream: a minute before its last beat


class Heartbeat(NamedTuple):
    """A message of a device; its first one is its entry in the registry."""

    device: str
    site: str
    at: int


class Silent(NamedTuple):
    last: Heartbeat


class Back(NamedTuple):
    last: Heartbeat
    back: Heartbeat


class Outage(NamedTuple):
    device: str
    site: str
    since: int
    until: int | None


# A beat exactly five minutes later is in time.
SILENT = Pattern[Heartbeat].begin("last").not_followed_by("beat").within(timedelta(milliseconds=SILENCE + 1))
BACK = Pattern[Heartbeat].begin("last").next("back", lambda beat, matched: beat.at - matched["last"][0].at > SILENCE)

rng = random.Random(61)
DEVICES = [Heartbeat(f"d{n}", f"site {n % 2}", 0) for n in range(5)]
BEATS = [
    Heartbeat(d.device, d.site, minute * MINUTE + n)
    for minute in range(1, 60)
    for n, d in enumerate(DEVICES[:4])
    if (minute // (7 + n)) % 3 != 1 and rng.random() < 0.9
]
CLOCK = [Heartbeat("d-clock", "site 2", minute * MINUTE) for minute in range(1, 66)]
ARRIVING = sorted(BEATS + CLOCK, key=lambda beat: beat.at + rng.randrange(MINUTE))
strategy = WatermarkStrategy[Heartbeat].for_bounded_out_of_orderness(timedelta(minutes=1))
registry = from_collection(DEVICES).assign_timestamps_and_watermarks(strategy, timestamp=lambda device: device.at)
beats = from_source(CollectionSource(ARRIVING, batch_size=80)).assign_timestamps_and_watermarks(
    strategy, timestamp=lambda beat: beat.at
)
by_device = registry.union(beats).key_by(lambda beat: beat.device)
silent = (
    by_device.pattern(SILENT)
    .select(Silent, name="silent")
    .filter(lambda match: match.last.at + SILENCE < END)  # at the end of the stream all are silent
    .map(lambda match: Outage(match.last.device, match.last.site, match.last.at, None))
)
back = (
    by_device.pattern(BACK)
    .select(Back, name="back")
    .map(lambda match: Outage(match.last.device, match.last.site, match.last.at, match.back.at))
)
alerts = (
    silent.key_by(lambda outage: outage.site)
    .in_event_time_order(name="alerts in order")
    .first(within=timedelta(milliseconds=QUIET), name="alerts")
)
OUTAGES, ALERTS = CollectSink[Outage]("outages"), CollectSink[Outage]("alerts")
PIPELINE = Pipeline("outages", silent.union(back).sink_to(OUTAGES), alerts.sink_to(ALERTS))


def answers() -> list[Answer]:
    """Looks at neighbours among the times of each device."""
    shown: list[Outage] = []
    ended: list[Outage] = []
    for device in DEVICES:
        times = [0, *sorted(beat.at for beat in BEATS if beat.device == device.device)]
        for last, after in pairwise(times):
            if after - last > SILENCE:
                shown.append(Outage(device.device, device.site, last, None))
                ended.append(Outage(device.device, device.site, last, after))
        if times[-1] + SILENCE < END:
            shown.append(Outage(device.device, device.site, times[-1], None))
    sent: dict[str, int] = {}
    alerted = []
    for outage in sorted(shown, key=lambda outage: outage.since):
        if outage.since - sent.get(outage.site, -QUIET) >= QUIET:
            sent[outage.site] = outage.since
            alerted.append(outage)
    assert 0 < len(alerted) < len(shown)
    return [Answer(OUTAGES, [*shown, *ended]), Answer(ALERTS, alerted)]

"""Kills a pipeline around the switch from a history of files to its topic: ``python -m tests.crash.hybrid``.

Each stream begins anew, is killed some times, and ends undisturbed. Each record has to be written once, and each file
of the history in its turn.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import uuid4

from tests.crash.__main__ import batches
from tests.crash.starts import await_moment, end_of, log_end, started
from tests.kafka.topics import Topics, in_json
from tests.services.kafka import running_kafka
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.connectors import HybridSource, SourceSwitch
from windrow.kafka import KafkaSource
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.spark import SparkRunner

_T = TypeVar("_T")

_FILES = 4  # a batch each, so the switch comes in the batch of this number
_IN_FILE = 25
_IN_TOPIC = 30  # at first
_AT_ONCE = 10  # of the topic's records in a batch
_AROUND = 2  # batches before and behind the switch in which a stream is killed first
_DELAY = 0.6  # seconds at most from the note that a batch begins to the kill: about what a batch takes
_SECONDS = 300.0


class Reading(NamedTuple):
    number: int
    at: int


class Count(NamedTuple):
    end: int
    size: int


def build(folder: Path, servers: str, topic: str, *, made: bool) -> Pipeline:
    """Writes each record, and counts those of ten seconds; ``made``: a function makes the live part."""
    live = KafkaSource(servers, topic, Reading, starting_offsets="earliest", max_offsets_per_batch=_AT_ONCE)

    def following(switch: SourceSwitch) -> KafkaSource[Reading]:
        assert len(switch.files) == switch.offsets["all"] == _FILES
        return live

    history = HybridSource(JsonFileSource(folder / "in", Reading, files_in_order="name", files_per_batch=1))
    source = history.then(following if made else live)
    readings = from_source(source, name="in")
    timed = readings.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda each: each.at
    )
    windows = timed.key_by(lambda each: 0).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    counts = windows.aggregate(agg.into(Count, agg.window_end(), agg.count()))
    return Pipeline(
        "hybrid", readings.sink_to(JsonFileSink(folder / "out")), counts.sink_to(JsonFileSink(folder / "counts"))
    )


def readings(begin: int, end: int) -> list[dict[str, int]]:
    return [Reading(number, number * 500)._asdict() for number in range(begin, end)]


def run(servers: str, folder: Path, kills: int, chance: random.Random, *, made: bool) -> int:
    """Run a stream whose process is killed several times.

    Returns:
        How many kills came within two batches of the switch; -1 if records are missing or there twice.
    """
    topics = Topics(servers, f"crash-{uuid4().hex[:8]}")
    topic = topics.make("in", 2)
    (folder / "in").mkdir(parents=True)
    for number in range(_FILES):
        lines = in_json(readings(number * _IN_FILE, (number + 1) * _IN_FILE))
        (folder / "in" / f"{number}.json").write_bytes(b"\n".join(line.value or b"" for line in lines))
    sent = begin = _FILES * _IN_FILE

    def send(count: int) -> None:
        nonlocal sent
        for partition in range(2):
            topics.send(topic, in_json(readings(sent, sent + count)[partition::2]), partition=partition)
        sent += count

    send(_IN_TOPIC)
    near = 0
    planned = chance.randrange(_FILES - _AROUND, _FILES + _AROUND + 1)
    for number in range(1, kills + 1):
        seconds = chance.uniform(0, _DELAY)
        code = attempt(folder, servers, topic, made=made, planned=planned, seconds=seconds)
        if code != -signal.SIGKILL:
            print(f"a start ended with exit code {code} before it was killed\n{log_end(folder)}")
            return -1
        noted, done = batches(folder, "offsets"), batches(folder)
        within = f"within batch {noted - 1}" if noted > done else f"behind batch {done - 1}"
        near += abs(noted - 1 - _FILES) <= _AROUND
        print(f"kill {number}, {seconds:.2f} s after batch {planned} was planned, {within}", flush=True)
        send(_AT_ONCE)
        planned = noted + chance.randrange(2)
    # A file that comes when the stream has begun is none of its history.
    (folder / "in" / "late.json").write_text('{"number": -1, "at": 0}\n')
    code = attempt(folder, servers, topic, made=made)
    if code != 0:
        print(f"the last start failed with exit code {code}\n{log_end(folder)}")
        return -1
    numbers = [each.number for each in _read(folder / "out", Reading)]
    found = Counter(numbers)
    wrong = {number: found[number] for number in {*range(sent), *found} if found[number] != 1 or number >= sent}
    counted = sum(each.size for each in _read(folder / "counts", Count))
    print(f"{sent} records, {begin} of them history, {batches(folder)} batches; {len(wrong)} lost or doubled {wrong}")
    if wrong or counted != sent or numbers[:begin] != [*range(begin)]:
        print(f"{counted} were counted in windows; the history came in this order: {numbers[:begin]}")
        return -1
    return near


def _read(folder: Path, kind: type[_T]) -> list[_T]:
    sink = CollectSink[_T]()
    files = JsonFileSource(folder, kind, files_in_order=lambda path: int(re.findall(r"batch-(\d+)", path)[-1]))
    return LocalRunner().run(Pipeline("p", from_source(files).sink_to(sink))).collected(sink)


def attempt(
    folder: Path, servers: str, topic: str, *, made: bool, planned: int | None = None, seconds: float = 0.0
) -> int:
    """Start the pipeline, and kill it some seconds after it has planned a batch; None: it drains the stream."""
    kind, mode = "made" if made else "given", "drain" if planned is None else "go on"
    with started(folder, "tests.crash.hybrid", ["--child", str(folder), servers, topic, kind, mode]) as child:
        if planned is not None:
            await_moment(child, folder, lambda: batches(folder, "offsets") > planned, "batch", _SECONDS)
        return end_of(child, _SECONDS if planned is None else seconds)


def child(path: str, servers: str, topic: str, made: str, mode: str) -> None:
    """What the process that is killed does."""
    folder = Path(path)
    pipeline = build(folder, servers, topic, made=made == "made")
    running = SparkRunner(checkpoint=folder / "checkpoint").start(pipeline)
    if mode == "drain":
        running.drain()
    else:
        running.await_termination()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.hybrid", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often to kill (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments (default 1)")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    near = 0
    with running_kafka() as server, tempfile.TemporaryDirectory(prefix="windrow-hybrid-") as folder:
        for number in range(options.kills // 2):
            code = run(server.address, Path(folder) / str(number), 2, chance, made=number % 2 == 1)
            if code < 0:
                return 1
            near += code
    print(f"{options.kills} kills, {near} of them within {_AROUND} batches of the switch: nothing lost or doubled")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())

"""Kills drivers, workers and the broker of pipelines from a topic to topics, and compares what consumers see.

By hand: ``python -m tests.kafka.kills --kills 20``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.kafka.topics import Topics, in_json
from tests.services.kafka import RESTARTS_SOON, launch, restart_kafka
from tests.services.server import Server, stop_server
from windrow import DataStream, Pipeline, WatermarkStrategy, from_collection, from_source
from windrow import aggregates as agg
from windrow.kafka import KafkaSink, KafkaSource
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.local import LocalRunner

__all__ = ["KINDS", "run"]

# Any in this module: elements of every type.

ROOT: Final = Path(__file__).parents[2]
KINDS: Final = ("driver", "java", "worker", "broker")
"""What is killed: the driver with all that it has started, its Java alone at first, a Python worker, the broker."""

_START: Final = 1_700_000_000_000
_IN: Final = 2  # the partitions of the topic that is read
_OUT: Final = 3
_BATCH: Final = 400  # records at most
_AHEAD: Final = 5  # batches of the faster pipeline, before each kill, which comes within the next but one
_AT_END: Final = 2
_MOMENT: Final = 0.8  # seconds: so long after a batch has begun something is killed at the latest
_LIMIT: Final = 300.0  # seconds to the next batch at most
_NAMES: Final = ("map", "windows")


class Event(NamedTuple):
    key: str
    at: int
    n: int


class Sum(NamedTuple):
    key: str
    end: int
    events: int
    n: int


def event(number: int) -> Event:
    """The event of a number: an hour has some 36,000, with disorder."""
    chance = random.Random(number)
    return Event(f"k{chance.randrange(40)}", _START + number * 100 + chance.randrange(-900, 900), number)


def mapped(events: DataStream[Event]) -> DataStream[Event]:
    """The pipeline without keys."""
    return events.filter(lambda each: each.n % 5 != 0).map(lambda each: Event(each.key, each.at, each.n * 10))


def summed(events: DataStream[Event]) -> DataStream[Sum]:
    """Keyed windows, of which no event is late, however the batches are made."""
    timed = events.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=_BATCH * _IN)), timestamp=lambda each: each.at
    )
    windows = timed.key_by(lambda each: each.key).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    return windows.aggregate(agg.into(Sum, agg.key(), agg.window_end(), agg.count(), agg.sum(lambda each: each.n)))


def pipelines(servers: str, prefix: str) -> list[Pipeline]:
    """The pipelines, from one topic to a topic each, in the order of their names."""
    source = KafkaSource(servers, f"{prefix}-in", Event, starting_offsets="earliest", max_offsets_per_batch=_BATCH)
    map_, windows = (f"{prefix}-{name}" for name in _NAMES)
    return [
        Pipeline("map", mapped(from_source(source)).sink_to(KafkaSink[Event](servers, map_))),
        Pipeline(
            "windows",
            summed(from_source(source)).sink_to(KafkaSink[Sum](servers, lambda _: windows, key=lambda each: each.key)),
        ),
    ]


def child(servers: str, prefix: str, folder: Path) -> None:
    """Runs both pipelines in a session whose tasks may fail twice, until it is killed or a file says to drain them."""
    from pyspark.sql import SparkSession

    from windrow_runtime.spark import SparkRunner

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    running = [
        SparkRunner(spark, checkpoint=folder / name, partitions=3).start(pipeline)
        for name, pipeline in zip(_NAMES, pipelines(servers, prefix), strict=True)
    ]
    while not (folder / "end").exists():
        for each in running:
            each.await_termination(0.2)
    for each in running:
        each.drain()
    spark.stop()


def run(folder: Path, kills: int, chance: random.Random, kinds: Sequence[str] = KINDS) -> int:
    """Run on Spark with kills, then undisturbed in the interpreter.

    Returns:
        0 if consumers of what is committed see the same, and the kills came where there was something to lose; else 1.
    """
    server = launch(properties=RESTARTS_SOON)
    try:
        return _Run(server, folder, chance).judged([kinds[number % len(kinds)] for number in range(kills)])
    finally:
        stop_server(server)


class _Run:
    def __init__(self, server: Server, folder: Path, chance: random.Random) -> None:
        self._server = server
        self._folder = folder
        self._chance = chance
        self._topics = Topics(server.address, "kills")
        self._sent = 0
        self._starts = 0

    def judged(self, wanted: list[str]) -> int:
        self._chance.shuffle(wanted)
        self._topics.make("in", _IN)
        for name in _NAMES:
            self._topics.make(name, _OUT)
        waiting = wanted[::-1]
        codes: list[int] = []
        while waiting:
            with self._started() as program:
                while waiting and program.poll() is None and self._kill(program, waiting[-1]):
                    kind = waiting.pop()
                    done = {name: self._batches(name) for name in _NAMES}
                    print(f"kill {len(wanted) - len(waiting)}, of the {kind}: {done} batches committed", flush=True)
                    if kind in ("driver", "java"):
                        break
                if not waiting and program.poll() is None:
                    codes.append(self._ended(program))
            if self._starts > 4 * len(wanted) + 4:
                print(f"too many starts failed\n{self._log_end()}")
                return 1
        while not codes or (codes[-1] != 0 and len(codes) < 3):  # what was killed last may fail one more start
            with self._started() as program:
                codes.append(self._ended(program))
        if codes[-1] != 0:
            print(f"the last starts failed with exit codes {codes}\n{self._log_end()}")
            return 1
        counts = Counter(wanted)
        return self._compared(f"{len(wanted)} kills ({', '.join(f'{counts[kind]} of the {kind}' for kind in counts)})")

    def _compared(self, kills: str) -> int:
        events = from_collection([event(number) for number in range(self._sent)])
        streams: list[DataStream[Any]] = [mapped(events), summed(events)]
        is_equal = True
        total = 0
        for name, stream in zip(_NAMES, streams, strict=True):
            sink = CollectSink[Any]()
            values = LocalRunner().run(Pipeline(name, stream.sink_to(sink))).collected(sink)
            expected = Counter(json.dumps(value._asdict(), separators=(",", ":")) for value in values)
            found = Counter((record.value or b"").decode() for record in self._topics.committed(f"kills-{name}"))
            for what, some in (("missing", expected - found), ("unexpected", found - expected)):
                if some:
                    print(f"{what} in {name}, {some.total()} records, such as {next(iter(some))}")
                    is_equal = False
            total += found.total()
        verdict = "each once, equal to" if is_equal else "different from"
        batches = sum(map(self._batches, _NAMES))
        print(f"{kills}, {self._starts} starts, {batches} batches: {total} records, {verdict} the undisturbed run's")
        return 0 if is_equal else 1

    def _ended(self, program: subprocess.Popen[bytes]) -> int:
        """Has a start drain what there is, and returns its exit code."""
        self._send(_AT_END)
        (self._folder / "checkpoints" / "end").touch()
        return program.wait(2 * _LIMIT)

    def _send(self, batches: int) -> None:
        """Has the topic so many batches more than the faster pipeline has done."""
        end = (max(map(self._batches, _NAMES)) + batches) * _BATCH
        for partition in range(_IN):
            numbers = range(self._sent + partition, end, _IN)
            self._topics.send("kills-in", in_json(event(n)._asdict() for n in numbers), partition=partition)
        self._sent = max(self._sent, end)

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        self._starts += 1
        arguments = [self._server.address, "kills", str(self._folder / "checkpoints")]
        with (self._folder / "log").open("ab") as log:
            program = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.kills", "--child", *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield program
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()

    def _kill(self, program: subprocess.Popen[bytes], kind: str) -> bool:
        """Kills something within a batch that begins after one that this start has done; returns whether it was there.

        It is not where the start has ended before.
        """
        self._send(_AHEAD)
        name = self._chance.choice(_NAMES)
        done = self._batches(name)
        if not self._waited(program, lambda: self._batches(name) > done):
            return False
        begun = self._batches(name, "offsets")
        self._waited(program, lambda: self._batches(name, "offsets") > begun)
        time.sleep(self._chance.uniform(0, _MOMENT))
        if kind == "broker":
            restart_kafka(self._server)
        elif kind == "driver":
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
        else:
            found = _of(program.pid, kind)
            if not found:
                return False
            try:
                os.kill(self._chance.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it ended by itself since it was listed
                return False
        return True

    def _waited(self, program: subprocess.Popen[bytes], condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + _LIMIT
        while not condition():
            if program.poll() is not None:
                return False
            if time.monotonic() > end:
                done = {name: (self._batches(name, "offsets"), self._batches(name)) for name in _NAMES}
                raise TimeoutError(f"no batch in {_LIMIT:.0f} s; begun and done: {done}\n{self._log_end()}")
            time.sleep(0.01)
        return True

    def _batches(self, name: str, what: str = "commits") -> int:
        """How many batches Spark has noted as done; by their ``offsets``: as begun."""
        notes = (self._folder / "checkpoints" / name / "spark" / what).glob("*")
        return max((int(note.name) + 1 for note in notes if note.name.isdigit()), default=0)

    def _log_end(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-5000:]


def _of(program: int, kind: str) -> list[int]:
    """The processes of a start that are its Java, or Python workers, whose command is that of their parent."""
    command = ["ps", "-ww", "-e", "-o", "pid=,ppid=,sess=,args="]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split(maxsplit=3) for line in lines]
    own = {int(pid): (int(parent), args) for pid, parent, session, args in rows if int(session) == program}
    if kind == "java":
        return [pid for pid, (_, args) in own.items() if args.split()[0].endswith("java")]
    daemons = {pid for pid, (_, args) in own.items() if "daemon" in args}
    return [pid for pid in daemons if own[pid][0] in daemons]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=4, help="how often to kill (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the order and the moments (default 1)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        servers, prefix, folder = options.child
        child(servers, prefix, Path(folder))
        return 0
    # Whoever ends this process ends the pipelines with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="windrow-kills-") as folder:
        return run(Path(folder), options.kills, random.Random(options.seed))


if __name__ == "__main__":
    sys.exit(main())

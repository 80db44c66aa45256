"""Runs pipelines on several machines that are made on this one, and compares what they write with the interpreter.

A machine is a set of namespaces with a Spark worker: it has nothing in common with others but the image, a network, and
a shared folder or a bucket. Machines are killed as by a power failure, join late, or are slow, by --mode.
"""

from __future__ import annotations

import argparse
import compileall
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Final

import psycopg
import pyarrow.parquet as pq

from tests.crash.elsewhere import Elsewhere, Here
from tests.kafka.topics import Record, Topics
from tests.machines.cluster import Cluster
from tests.machines.jobs import (
    IN_FILES,
    JOBS,
    TABLES,
    TOPICS,
    Place,
    Sum,
    build,
    lines,
    readings,
    summed,
    summed_in_python,
)
from tests.machines.machines import (
    DRIVER,
    ROOT,
    SERVICES,
    SHARED,
    Network,
    NoMachinesError,
    eventually,
    inside,
    refusal,
)
from tests.machines.memory import Memory
from tests.machines.modes import MODES
from tests.outputs import postgres
from tests.services import kafka, s3
from tests.services.errors import NoServiceError
from tests.services.server import stop_server
from windrow import Pipeline, from_collection
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner

_AT_ONCE: Final = 600  # readings, each second
_FILES: Final = 3
_LIMIT: Final = 300.0  # seconds to the end at most
_NAME: Final = "machines"
_LONG: Final = 10.0  # minutes of a run in which memory is looked at, each ten seconds
_SAMPLE: Final = 10.0
_STATE: Final = "run.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("--job", choices=JOBS, default=JOBS[0], help="the pipeline (default %(default)s)")
    parser.add_argument("--mode", choices=MODES, default="plain", help="what happens to machines (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long input comes (default %(default)s)")
    parser.add_argument("--kills", type=int, help="after how many kills input ends, whatever the time")
    parser.add_argument("--pause", type=float, default=0.0, help="the least seconds from one kill to the next")
    parser.add_argument("--folder", type=Path, help="keeps the files of the run here, and goes on from what is here")
    parser.add_argument("--unfinished", action="store_true", help="ends as if all machines lost power; needs --folder")
    parser.add_argument("--seed", type=int, default=1, help="chooses what is killed when (default 1)")
    parser.add_argument("--logs", type=Path, help="keeps the logs of all processes in this folder")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.unfinished and options.folder is None:
        parser.error("--unfinished needs --folder, from which a later run goes on")
    if options.folder is not None and options.job not in IN_FILES:
        parser.error(f"the services of {options.job} keep nothing: --folder is for {', '.join(IN_FILES)}")
    if not options.inside:
        try:
            _check(options.job)
        except (NoMachinesError, NoServiceError, postgres.NoServerError) as error:
            print(error, file=sys.stderr)
            return 2
        process = subprocess.Popen(inside("tests.machines", [*sys.argv[1:], "--inside"]))
        signal.signal(signal.SIGTERM, lambda *_: process.kill())
        return process.wait()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windrow-machines-")))
        run = Run(stack, folder, options.job, options.mode, random.Random(options.seed))
        run.measures_memory = options.folder is not None or options.minutes >= _LONG
        try:
            return run.judged(options.minutes * 60, options.kills, options.pause, unfinished=options.unfinished)
        finally:
            if options.logs is not None:
                subprocess.run(["cp", "-r", str(folder / "logs"), str(options.logs)], check=True)


def _check(job: str) -> None:
    """Raises an error if something is missing, and fetches what is fetched from a network."""
    reason = refusal()
    if reason is not None:
        raise NoMachinesError(reason)
    # Nobody can write to the image, so its modules are compiled before.
    for name in ("dsl", "runtime", "tests/machines"):
        compileall.compile_dir(ROOT / name, quiet=1)
    kafka.CONNECTOR.fetch()
    s3.CONNECTOR.fetch()
    if job == "topics":
        kafka.BROKER.fetch()
    if job == "bucket":
        s3.fetch()
    if job == "postgres":
        with postgres.running_server():
            pass  # it can be had


@dataclass
class Run:
    """A run of a job on a new cluster.

    Attributes:
        sent: How many readings were given to the job.
        measures_memory: Whether it looks at the memory of processes.
    """

    stack: ExitStack
    folder: Path
    job: str
    mode: str
    chance: random.Random
    sent: int = field(default=0, init=False)
    measures_memory: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        network = self.stack.enter_context(Network.made(self.folder, shared=self.job != "bucket"))
        self._data = network.shared or self.folder / "data"
        (self._data / "in").mkdir(parents=True, exist_ok=True)
        spark = {}
        servers = ""
        if self.job == "bucket":
            server = s3.launch(host=SERVICES)
            self.stack.callback(stop_server, server)
            spark = s3.settings(server.address)
            web = f"http://{server.address}/{s3.BUCKET}"
            self._place: Here = Elsewhere(f"s3a://{s3.BUCKET}/{_NAME}", web, "", is_s3=True)
            url = self._place.url
        else:
            self._place, url = Here(str(self._data)), SHARED
        if self.job == "topics":
            server = kafka.launch(host=SERVICES)
            self.stack.callback(stop_server, server)
            self._topics = Topics(servers := server.address, _NAME)
            for name in ("in", "out"):
                self._topics.make(name, 3)
        if self.job == "postgres":
            self._log = self.stack.enter_context(postgres.running_server(SERVICES)) / "log"
            self._database = servers = postgres.url_of(SERVICES)
        self._mode = MODES[self.mode](self.chance)
        self._memory, self._before = Memory(), 0.0
        self._take_up()
        program = {"place": vars(Place(self.job, url, servers)), "checkpoint": f"{url}/checkpoint"}
        self.send()
        self.cluster = Cluster(network, self._mode.workers, program, {**spark, **self._mode.settings})

    def _take_up(self) -> None:
        """Goes on from what an unfinished run has left."""
        with suppress(FileNotFoundError):
            state = json.loads((self.folder / _STATE).read_text())
            self.sent, self._before, self._memory.samples = state["sent"], state["seconds"], state["samples"]
            self._mode.take_up(state["counts"])
            # What it says tells that a master runs, and which workers it has.
            log = self.folder / "logs" / "master.log"
            log.rename(log.with_name(f"master-{self._before:.0f}.log"))

    def _leave(self, seconds: float) -> None:
        state = {
            "sent": self.sent,
            "seconds": self._before + seconds,
            "samples": self._memory.samples,
            "counts": self._mode.counts(),
        }
        (self.folder / _STATE).write_text(json.dumps(state))

    def send(self) -> None:
        """Gives the job more readings."""
        for share in range(_FILES):
            numbers = range(self.sent, self.sent + _AT_ONCE // _FILES)
            texts = lines(readings(numbers))
            if self.job == "topics":
                self._topics.send(TOPICS[0], [Record(text.encode()) for text in texts], partition=share)
            else:
                file = self._data / "in" / f"_{self.sent:08}.json"
                file.write_text("".join(f"{text}\n" for text in texts))
                file.rename(file.with_name(file.name[1:]))
            self.sent = numbers.stop
        if self.job != "topics":
            self._place.put(self._data, "in")

    def judged(self, seconds: float, kills: int | None, pause: float, *, unfinished: bool) -> int:
        """Runs the job while input comes for some seconds, and until so many kills; returns the exit code."""
        began = time.monotonic()
        self._mode.pause = pause
        try:
            self._work(seconds, kills)
            if unfinished:
                self._leave(time.monotonic() - began)
                print(f"{self.job} {self.mode}: {self.sent:,} readings so far, {self._mode.told(self.cluster)}")
                return 0
            self._drain()
        except (TimeoutError, AssertionError) as error:
            print(f"{error}\n{_end(self.cluster.driver.text)}")
            return 1
        took = self._before + time.monotonic() - began
        expected, found = self._expected(), self._found()
        for what, some in (("missing", expected - found), ("unexpected", found - expected)):
            if some:
                print(f"{what}: {some.total()} records, such as {next(iter(some))}")
        grown = self._memory.faults() if self.measures_memory else ()
        faults = [*self._mode.faults(self.cluster), *self._traces(), *grown]
        if self.job == "postgres" and "CREATE UNLOGGED TABLE windrow_staged" not in self._log.read_text():
            faults.append("no worker has staged rows")
        print("".join(f"{fault}\n" for fault in faults), end="")
        counted = f"{self.sent:,} readings, {found.total():,} records in {self.cluster.batches} batches"
        verdict = f"{'equal to' if expected == found else 'different from'} the interpreter's"
        told = ", ".join([self._mode.told(self.cluster), *([self._memory.told()] if self.measures_memory else [])])
        print(f"{self.job} {self.mode}: {counted}, {told}, {verdict}, {took:.0f} s")
        return 0 if expected == found and found and not faults else 1

    def _work(self, seconds: float, kills: int | None) -> None:
        eventually(lambda: self._batch_or_end() > 0, "no batch", _LIMIT)
        end = time.monotonic() + seconds
        sampled = 0.0
        while time.monotonic() < end or (kills is not None and self._mode.kills < kills):
            for _ in range(self._mode.sends()):
                self.send()
            if kills is None or self._mode.kills < kills:
                self._mode.step(self.cluster)
            self._restarted()
            if self.measures_memory and time.monotonic() > sampled + _SAMPLE:
                sampled = time.monotonic()
                self._memory.take(self.cluster.machines)
            time.sleep(1)

    def _drain(self) -> None:
        self._mode.end(self.cluster)
        end = time.monotonic() + _LIMIT
        while True:
            self.cluster.driver.close_input()
            code = self.cluster.driver.wait(1)
            if code == 0:
                return
            if code is not None:
                self._restarted()
            assert time.monotonic() < end, f"it does not drain in {_LIMIT:.0f} s"

    def _batch_or_end(self) -> int:
        self._restarted()
        return self.cluster.batches

    def _restarted(self) -> None:
        """Starts the program again where it failed because machines were killed."""
        if self.cluster.machines[DRIVER].is_up and self.cluster.driver.code() is not None:
            assert self._mode.kills, f"the program ended with exit code {self.cluster.driver.code()}"
            self._mode.failures += 1
            assert self._mode.failures <= 2 * self._mode.kills, "the program fails again and again"
            self.cluster.start_driver()

    def _found(self) -> Counter[str]:
        if self.job == "topics":
            return Counter((each.value or b"").decode() for each in self._topics.committed(TOPICS[1]))
        if self.job == "postgres":
            return self._stored()
        return _written(self._place)

    def _stored(self) -> Counter[str]:
        """The rows in the tables, and the tables of staged rows, of which none may be left."""
        found: Counter[str] = Counter()
        with psycopg.connect(self._database) as connection:
            for table in TABLES:
                rows = connection.execute(f'SELECT key, "end", readings, value FROM {table}').fetchall()
                found.update(f"{table} {line}" for line in lines(Sum(*row) for row in rows))
            left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'windrow\\_staged%'")
            found.update(name for (name,) in left.fetchall())
        return found

    def _expected(self) -> Counter[str]:
        if self.job == "topics":
            sink = CollectSink[object]()
            sums = summed(from_collection([*readings(range(self.sent))]))
            return Counter(lines(LocalRunner().run(Pipeline("topics", sums.sink_to(sink))).collected(sink)))
        if self.job == "postgres":
            sinks = {table: CollectSink[object]() for table in TABLES}
            events = from_collection([*readings(range(self.sent))])
            streams = zip((summed(events), summed_in_python(events)), sinks.values(), strict=True)
            result = LocalRunner().run(Pipeline("postgres", *(stream.sink_to(sink) for stream, sink in streams)))
            return Counter(f"{table} {line}" for table, sink in sinks.items() for line in lines(result.collected(sink)))
        local = self.folder / "local"
        local.mkdir()
        (local / "in").symlink_to(self._data / "in")
        LocalRunner().run(build(Place(self.job, str(local), "")))
        return _written(Here(str(local)))

    def _traces(self) -> Iterator[str]:
        """Tells of files of the checkpoint in which a path of the driver's machine is."""
        place = self._place
        files = place.files("checkpoint") if isinstance(place, Elsewhere) else _files(self._data, "checkpoint")
        for path in files:
            content = place.read(path)
            at = content.find(f"/{DRIVER}/".encode())
            if at >= 0:
                yield f"{path} has a path of the driver's machine: {content[max(0, at - 100) : at + 100]!r}"


def _files(folder: Path, name: str) -> list[str]:
    return [str(file.relative_to(folder)) for file in (folder / name).rglob("*") if file.is_file()]


def _written(place: Here) -> Counter[str]:
    """What file sinks have written, each record with the name of its sink."""
    found: Counter[str] = Counter()
    for path in place.shown("out"):
        content, name = place.read(path), path.split("/")[1]
        if path.endswith(".parquet"):
            found.update(f"{name} {row}" for row in pq.read_table(BytesIO(content)).to_pylist())
        else:
            found.update(f"{name} {line}" for line in content.decode().splitlines())
    return found


def _end(text: str) -> str:
    """The end of a log, and the lines of errors."""
    kept: Sequence[str] = [line for line in text.splitlines() if " INFO " not in line]
    return "\n".join(kept[-60:])


if __name__ == "__main__":
    sys.exit(main())

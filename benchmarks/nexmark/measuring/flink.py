"""Runs Flink SQL in a process and a Python of its own, over the same rows as files of text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.contenders.flink_process import run_program
from benchmarks.errors import MeasurementError
from benchmarks.nexmark.measuring.answers import answer_types, check_text
from benchmarks.nexmark.measuring.data import STREAMS, Data
from benchmarks.nexmark.measuring.flink_sql import FLINK, source

__all__ = ["FlinkRun", "run_flink"]

# Any in this module: pyarrow ships no types.

_PROGRAM: Final = Path(__file__).with_name("flink_program.py")
_READERS: Final = 2
_TYPES: Final = {"VARCHAR": "STRING", "TIMESTAMP": "TIMESTAMP(3)"}
# Which part of the input the JVM is warmed up with.
_WARM_SHARE: Final = 4
# Which of the jobs counts: the one behind the warm-up.
_MEASURED: Final = 1

_DURABLE: Final = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "1s",
    "execution.checkpointing.storage": "filesystem",
}


@dataclass(frozen=True, slots=True)
class FlinkRun:
    """The time of a job, as Flink says.

    Attributes:
        events: The events of the three streams.
        seconds: From when its first task ran until it was finished.
        start_seconds: The seconds before: what it takes to make the tasks and to give them to their slots.
    """

    events: int
    seconds: float
    start_seconds: float


def run_flink(query: str, data: Data, python: str, *, durable: bool = False) -> FlinkRun:
    """Run a query over the whole input.

    Args:
        query: Its name.
        data: The streams.
        python: The Python of an environment that has apache-flink.
        durable: Whether state lies in RocksDB, with a checkpoint of what has changed each second.

    Raises:
        MeasurementError: If the program failed, or the job took no time that can be measured.
        WrongResultError: If the result is not the reference's. Where rows replace earlier ones, it is the result that
            the same statement has in batch mode, in a job of its own.
    """
    texts = _as_text(data)
    with TemporaryDirectory(prefix="windrow-nexmark-") as scratch:
        out = Path(scratch, "whole")
        settings = {**_DURABLE, "execution.checkpointing.dir": Path(scratch, "kept").as_uri()} if durable else {}
        begin, whole = (
            _job(query, data, texts / part, target) | {"settings": settings}
            for part, target in (("begin", Path(scratch, "begin")), ("whole", out))
        )
        jobs = [begin, whole]
        if FLINK[query].updates:
            jobs.append(_job(query, data, texts / "whole", out, mode="batch"))
        file = Path(scratch, "jobs.json")
        file.write_text(json.dumps(jobs), encoding="utf-8")
        output, _ = run_program([python, str(_PROGRAM), str(file)], Path(scratch))
        figures = json.loads(output.splitlines()[-1])
        run = FlinkRun(data.events, figures["seconds"][_MEASURED], figures["start_seconds"][_MEASURED])
        check_text(query, data, out)
    if run.seconds <= 0:
        raise MeasurementError(f"{data.events:,} events took Flink {run.seconds} seconds, which give no speed")
    return run


def _job(
    query: str, data: Data, texts: Path, out: Path, *, mode: Literal["streaming", "batch"] = "streaming"
) -> dict[str, object]:
    flink = FLINK[query]
    disorder = data.manifest["disorder_ms"]
    sources = [source(name, str(texts / name), disorder) for name in (*STREAMS, "side_input")]
    columns = ", ".join(f"`{name}` {_TYPES.get(kind, kind)}" for name, kind in answer_types(query, data).items())
    if flink.updates and mode == "streaming":
        sink = f"CREATE TABLE answers ({columns}) WITH ('connector' = 'blackhole')"
    else:
        folders = "PARTITIONED BY (dt, hm)" if query == "q10" else ""
        target = f"'connector' = 'filesystem', 'path' = '{out}', 'format' = 'csv'"
        sink = f"CREATE TABLE answers ({columns}) {folders} WITH ({target}, 'csv.disable-quote-character' = 'true')"
    return {"mode": mode, "settings": {}, "statements": [*sources, sink, f"INSERT INTO answers {flink.sql}"]}


def _as_text(data: Data) -> Path:
    """The streams as text, all of them and the first part; made once.

    Each stream is two files, whose rows alternate: so both readers of a source have one, and are at the same time.
    """
    folder = data.path / "text"
    if not folder.exists():
        unfinished = folder.with_name("text-unfinished")
        for name in STREAMS:
            rows = pq.read_table(data.path / name)
            for part, length in {"whole": len(rows), "begin": len(rows) // _WARM_SHARE}.items():
                _write(unfinished / part / name, rows.slice(0, length))
        side = pq.read_table(data.path / "side_input")
        for part in ("whole", "begin"):
            _write(unfinished / part / "side_input", side)
        unfinished.rename(folder)
    return folder


def _write(folder: Path, rows: Any) -> None:
    folder.mkdir(parents=True)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    for reader in range(_READERS):
        mine = rows.take(pa.array(range(reader, len(rows), _READERS), pa.int64()))
        pyarrow.csv.write_csv(mine, folder / f"{reader}.csv", options)

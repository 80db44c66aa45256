"""From topic to windows to topic: ``python -m benchmarks.topics``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.environment import environment
from benchmarks.section import Section
from benchmarks.session import spark_session
from benchmarks.topics.contenders import CONTENDERS, TUNED, Job
from benchmarks.topics.records import BATCH, Fed, feed, read_results
from tests.services.kafka import CONNECTOR, start_kafka, stop_kafka

__all__ = ["main"]

_WARM_ROUNDS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the contenders in turn, and print the table."""
    options = _parse(arguments)
    small, large = options.millions
    where = environment()
    print(where.text(), flush=True)
    names = options.contender or list(CONTENDERS)
    jars = {"spark.jars": ",".join(map(str, CONNECTOR.fetch()))}
    server = start_kafka()
    try:
        servers = server.address
        sizes = {"warm": small, "small": small, "large": large}
        warm, *fed = (feed(servers, name, int(size * 1e6), options.partitions) for name, size in sizes.items())
        with spark_session(jars) as spark:
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
            loads: list[float] = []
            for number in range(options.rounds + _WARM_ROUNDS):
                for name in names:
                    if number < _WARM_ROUNDS:
                        _run(spark, servers, name, warm)
                        continue
                    once = [_run(spark, servers, name, each) for each in fed]
                    times[name].append((once[0], once[1]))
                    loads.append(os.getloadavg()[0])
                    print(f"... round {number}, {name}: {_rate(fed, once):,.0f} records/s", file=sys.stderr, flush=True)
    finally:
        stop_kafka(server)
    section = _section(fed, times, loads, options.partitions)
    print(f"\n{section.text()}", flush=True)
    if options.json is not None:
        content = {"environment": asdict(where), "sections": [asdict(section)]}
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    return 0


def _run(spark: object, servers: str, name: str, fed: Fed) -> float:
    """Run a contender over a topic; returns the seconds."""
    with TemporaryDirectory(prefix="windrow-bench-") as folder:
        target = fed.new_target()
        job = Job(spark, servers, fed.topic, target, Path(folder))
        begin = time.perf_counter()
        CONTENDERS[name](job)
        seconds = time.perf_counter() - begin
        fed.check(read_results(servers, target), name)
    return seconds


def _rate(fed: Sequence[Fed], seconds: Sequence[float]) -> float:
    """The records a second of what the larger topic has more."""
    return (fed[1].records - fed[0].records) / (seconds[1] - seconds[0])


def _section(
    fed: Sequence[Fed], times: dict[str, list[tuple[float, float]]], loads: list[float], partitions: int
) -> Section:
    counts = " and ".join(f"{each.records:,}" for each in fed)
    section = Section(
        "topics",
        f"{counts} records in JSON, {partitions} partitions, 1,000 keys, {BATCH:,} a batch, load to {max(loads):.0f}",
        ("contender", *(f"{each.records / 1e6:g} M, s" for each in fed), "records/s", "each round", "x tuned"),
    )
    rates = {name: [_rate(fed, each) for each in rounds] for name, rounds in times.items()}
    for name, rounds in times.items():
        ratios = [mine / other for mine, other in zip(rates[name], rates.get(TUNED, rates[name]), strict=True)]
        section.rows.append(
            [
                name,
                *(f"{median(each[place] for each in rounds):.1f}" for place in range(2)),
                f"{median(rates[name]):,.0f}",
                " ".join(f"{rate / 1000:.0f}k" for rate in rates[name]),
                f"{median(ratios):.2f}",
            ]
        )
    return section


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics", description=__doc__)
    parser.add_argument("--contender", action="append", choices=list(CONTENDERS), help="only this one, or these")
    parser.add_argument("--millions", type=float, nargs=2, default=(1.0, 4.0), help="records of both topics")
    parser.add_argument("--partitions", type=int, default=4, help="of both topics")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

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
from typing import NamedTuple

from benchmarks.environment import environment
from benchmarks.memory import processor_seconds
from benchmarks.section import Section
from benchmarks.session import spark_session
from benchmarks.topics.contenders import CONTENDERS, TUNED, Job
from benchmarks.topics.records import BATCH, Fed, feed, read_results
from tests.services.kafka import CONNECTOR, launch
from tests.services.server import stop_server

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the contenders in turn, and print the table."""
    options = _parse(arguments)
    small, large = options.millions
    where = environment()
    print(where.text(), flush=True)
    names = options.contender or list(CONTENDERS)
    jars = {"spark.jars": ",".join(map(str, CONNECTOR.fetch()))}
    server = launch()
    try:
        servers = server.address
        sizes = {"warm": small, "small": small, "large": large}
        warm, *fed = (feed(servers, name, int(size * 1e6), options.partitions) for name, size in sizes.items())
        with spark_session(jars) as spark:
            spent: dict[str, list[list[Spent]]] = {name: [] for name in names}
            loads: list[float] = []
            for number in range(options.warm + options.rounds):
                for name in names:
                    if number < options.warm:
                        _run(spark, servers, name, warm)
                        continue
                    once = [_run(spark, servers, name, each) for each in fed]
                    spent[name].append(once)
                    loads.append(os.getloadavg()[0])
                    rates = " and ".join(f"{rate:,.0f}" for rate in _rates(fed, once))
                    print(f"... {name}: {rates} records a second and a CPU second", file=sys.stderr, flush=True)
    finally:
        stop_server(server)
    section = _section(fed, spent, loads, options.partitions)
    print(f"\n{section.text()}", flush=True)
    if options.json is not None:
        content = {"environment": asdict(where), "sections": [asdict(section)]}
        options.json.write_text(json.dumps(content, indent=2) + "\n")
    return 0


class Spent(NamedTuple):
    """What a run has taken."""

    seconds: float
    processor: float  # of Spark, its workers and the broker


def _run(spark: object, servers: str, name: str, fed: Fed) -> Spent:
    """Run a contender over a topic."""
    with TemporaryDirectory(prefix="windrow-bench-") as folder:
        target = fed.new_target()
        job = Job(spark, servers, fed.topic, target, Path(folder))
        begin, before = time.perf_counter(), processor_seconds()
        CONTENDERS[name](job)
        spent = Spent(time.perf_counter() - begin, processor_seconds() - before)
        fed.check(read_results(servers, target), name)
    return spent


def _rates(fed: Sequence[Fed], spent: Sequence[Spent]) -> tuple[float, float]:
    """The records that the larger topic has more, by the seconds and the processor seconds that they take more."""
    more = fed[1].records - fed[0].records
    return more / (spent[1].seconds - spent[0].seconds), more / (spent[1].processor - spent[0].processor)


def _section(fed: Sequence[Fed], spent: dict[str, list[list[Spent]]], loads: list[float], partitions: int) -> Section:
    counts = " and ".join(f"{each.records:,}" for each in fed)
    section = Section(
        "topics",
        f"{counts} records in JSON, {partitions} partitions, 1,000 keys, {BATCH:,} a batch, load to {max(loads):.0f}",
        (
            "contender",
            *(f"{each.records / 1e6:g} M, s" for each in fed),
            *("records/s", "each round", "x tuned", "records/CPU s", "x tuned"),
        ),
    )
    rates = {name: [_rates(fed, each) for each in rounds] for name, rounds in spent.items()}
    for name, rounds in spent.items():
        found, tuned = (list(zip(*rates.get(each, rates[name]), strict=True)) for each in (name, TUNED))
        ratios = [
            median(mine / other for mine, other in zip(found[place], tuned[place], strict=True)) for place in range(2)
        ]
        section.rows.append(
            [
                name,
                *(f"{median(each[place].seconds for each in rounds):.1f}" for place in range(2)),
                f"{median(found[0]):,.0f}",
                " ".join(f"{rate / 1000:.0f}k" for rate in found[0]),
                f"{ratios[0]:.2f}",
                f"{median(found[1]):,.0f}",
                f"{ratios[1]:.2f}",
            ]
        )
    return section


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topics", description=__doc__)
    parser.add_argument("--contender", action="append", choices=list(CONTENDERS), help="only this one, or these")
    parser.add_argument("--millions", type=float, nargs=2, default=(1.0, 4.0), help="records of both topics")
    parser.add_argument("--partitions", type=int, default=4, help="of both topics")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=2, help="rounds before these, which do not count")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

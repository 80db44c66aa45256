"""Runs jobs of Flink SQL, as a program of its own, in a Python that has apache-flink and needs nothing else.

    python benchmarks/nexmark/measuring/flink_program.py JOBS.json

``JOBS.json`` has a list of jobs, each a list of statements whose last one inserts. It prints a line of JSON with the
seconds of each job and the version.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

# What Flink's own suite sets, but for RocksDB and checkpoints: here state is on the heap.
SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}


def run(statements: list[str]) -> float:
    """Run one job; gives the seconds that Flink says it took."""
    settings = Configuration()
    for name, value in SETTINGS.items():
        settings.set_string(name, value)
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    *definitions, insert = statements
    for statement in definitions:
        tables.execute_sql(statement)
    result = tables.execute_sql(insert)
    client = result.get_job_client()
    assert client is not None
    return float(client.get_job_execution_result().result().get_net_runtime()) / 1_000


def main(file: str) -> None:
    """Run the jobs, one behind the other."""
    with open(file, encoding="utf-8") as text:
        jobs = json.load(text)
    print(json.dumps({"seconds": [run(job) for job in jobs], "flink": version("apache-flink")}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

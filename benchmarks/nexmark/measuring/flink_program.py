"""Runs jobs of Flink SQL, as a program of its own, in a Python that has apache-flink and needs nothing else.

    python benchmarks/nexmark/measuring/flink_program.py JOBS.json

``JOBS.json`` has a list of jobs: each has a ``mode``, ``streaming`` or ``batch``, more ``settings`` of Flink's, and
``statements``, whose last one inserts. The program prints a line of JSON with the seconds of each job, from when its
first task ran until it was finished, the seconds before that, and the version.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any

from pyflink.common import Configuration, JobClient
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

# Any in this module: objects of the JVM.

PARALLELISM = 2

# What Flink's own suite sets, but for RocksDB and checkpoints, which a job may ask for: else state is on the heap.
SETTINGS = {
    "parallelism.default": str(PARALLELISM),
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}


class Cluster:
    """A cluster within the JVM of this program; it outlives its jobs, so that it can tell of those that ended."""

    def __init__(self) -> None:
        runtime = get_gateway().jvm.org.apache.flink.runtime
        shape = runtime.minicluster.MiniClusterConfiguration.Builder()
        shape = shape.setNumTaskManagers(1).setNumSlotsPerTaskManager(PARALLELISM)
        self._cluster = runtime.minicluster.MiniCluster(shape.build())
        self._cluster.start()
        self._finished = get_gateway().jvm.org.apache.flink.api.common.JobStatus.FINISHED
        self._initializing = get_gateway().jvm.org.apache.flink.api.common.JobStatus.INITIALIZING
        self._running = runtime.execution.ExecutionState.RUNNING

    @property
    def settings(self) -> dict[str, str]:
        """What sends a job to this cluster."""
        address = self._cluster.getRestAddress().get()
        return {"execution.target": "remote", "rest.address": address.getHost(), "rest.port": str(address.getPort())}

    def times(self, job: JobClient) -> tuple[float, float]:
        """The seconds of an ended job before any of its tasks ran, and those from then on."""
        graph = self._cluster.getExecutionGraph(job.get_job_id()._j_job_id).get()
        began = graph.getStatusTimestamp(self._initializing)
        ran = min(
            task.getCurrentExecutionAttempt().getStateTimestamp(self._running)
            for vertex in dict(graph.getAllVertices()).values()
            for task in vertex.getTaskVertices()
        )
        return (ran - began) / 1_000, (graph.getStatusTimestamp(self._finished) - ran) / 1_000


def run(job: dict[str, Any], cluster: Cluster) -> tuple[float, float]:
    """Run one job; gives the seconds of its start and those of its work, as Flink says."""
    settings = Configuration()
    own = {"execution.runtime-mode": job["mode"], **job["settings"]}
    for name, value in {**SETTINGS, **cluster.settings, **own}.items():
        settings.set_string(name, value)
    tables = TableEnvironment.create(EnvironmentSettings.new_instance().with_configuration(settings).build())
    *definitions, insert = job["statements"]
    for statement in definitions:
        tables.execute_sql(statement)
    client = tables.execute_sql(insert).get_job_client()
    assert client is not None
    client.get_job_execution_result().result()
    return cluster.times(client)


def main(file: str) -> None:
    """Run the jobs, one behind the other."""
    with open(file, encoding="utf-8") as text:
        jobs = json.load(text)
    cluster = Cluster()
    starts, seconds = zip(*(run(job, cluster) for job in jobs), strict=True)
    print(json.dumps({"start_seconds": starts, "seconds": seconds, "flink": version("apache-flink")}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

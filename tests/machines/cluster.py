"""A cluster of Spark on the machines of a network: a master, workers with a core each, and a driver's program."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from tests.machines.machines import DRIVER, Machine, Network, Process, eventually
from tests.services import kafka, s3
from tests.spark_home import home_without_zip, options_with_classes

__all__ = ["WORKERS", "Cluster"]

# Any in this module: the settings of the program, which are sent as JSON.

WORKERS: Final = ("worker-1", "worker-2", "worker-3")
_CLOCKS: Final = {"worker-2": 3.0, "worker-3": -1.5}
"""By how many seconds clocks differ from the driver's."""
_URL: Final = "spark://master:7077"
_SETTINGS: Final = {
    "spark.driver.host": DRIVER,
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "900m",
    "spark.executor.extraJavaOptions": options_with_classes(),
    # A machine that is gone has closed no connection: the cluster learns of it by what does not come.
    "spark.executor.heartbeatInterval": "3s",
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "10s",
    "spark.shuffle.io.retryWait": "2s",
    "spark.python.daemon.module": "windrow_runtime.spark.daemon",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "64",
    "spark.ui.enabled": "false",
}
_LOST: Final = "-Dspark.worker.timeout=30"  # seconds until the master gives up a worker; 60 by default
_BATCH: Final = re.compile(r"^windrow batch (\d+)$", re.MULTILINE)


class Cluster:
    """The machines, of which workers and the driver can be killed and come back.

    Args:
        network: Where they are.
        workers: How many workers there are from the beginning.
        program: The settings of the driver's program.
        spark: The settings of its session besides.
    """

    def __init__(self, network: Network, workers: int, program: Mapping[str, Any], spark: Mapping[str, str]) -> None:
        self._network = network
        self._program = {**program, "spark": {"spark.master": _URL, **_SETTINGS, **spark}}
        master = network.machine("master")
        command = ["--host", "master", "--port", "7077", "--webui-port", "0"]
        options = master.environment()["SPARK_DAEMON_JAVA_OPTS"]
        self.master = self._spark(master, "master.Master", command, SPARK_DAEMON_JAVA_OPTS=f"{options} {_LOST}")
        eventually(lambda: _URL in self.master.text, f"no master: {self.master.text[-2000:]}")
        self.machines: dict[str, Machine] = {}
        for name in WORKERS[:workers]:
            self.start_worker(name)
        eventually(lambda: self.master.text.count("Registering worker") == workers, "workers do not register")
        self.machines[DRIVER] = network.machine(DRIVER)
        self.starts = 0
        self.driver = self.start_driver()

    @staticmethod
    def _spark(machine: Machine, name: str, arguments: list[str], **variables: str) -> Process:
        program = [f"{home_without_zip()}/bin/spark-class", f"org.apache.spark.deploy.{name}"]
        return machine.start(machine.name, [*program, *arguments], **variables)

    def start_worker(self, name: str) -> None:
        """Boots the machine of a worker, and starts the worker."""
        if name in self.machines:
            self.machines[name].boot()
        else:
            self.machines[name] = self._network.machine(name, _CLOCKS.get(name, 0.0))
        resources = ["--host", name, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        machine = self.machines[name]
        self._spark(machine, "worker.Worker", [*resources, "--work-dir", f"{machine.own}/work", _URL])

    def start_driver(self) -> Process:
        """Starts the driver's program, on its machine that runs."""
        jars = f"{self.machines[DRIVER].own}/jars"
        connectors = [*kafka.CONNECTOR.fetch(), *s3.CONNECTOR.fetch()]
        spark = {"spark.jars": ",".join(f"{jars}/{jar.parent.name}/{jar.name}" for jar in connectors)}
        settings = {**self._program, "spark": {**spark, **self._program["spark"]}}
        self.starts += 1
        command = [sys.executable, "-m", "tests.machines.program", json.dumps(settings)]
        log = f"-Dlog4j2.configurationFile=file://{self.machines[DRIVER].own}/code/tests/machines/log4j2.properties"
        options = f"{options_with_classes()} {log}"
        self.driver = self.machines[DRIVER].start("driver", command, SPARK_SUBMIT_OPTS=options)
        return self.driver

    @property
    def batches(self) -> int:
        """How many batches the program has reported in all of its starts, each counted once."""
        return len(set(_BATCH.findall(self.driver.text)))

    def kill(self, name: str, *, silently: bool) -> None:
        """Ends a machine at once; ``silently``: without a word to others."""
        self.machines[name].kill(silently=silently)

    def revive(self, name: str) -> None:
        """Has a machine come back that was killed, with what ran there."""
        if name == DRIVER:
            self.machines[name].boot()
            self.start_driver()
        else:
            self.start_worker(name)

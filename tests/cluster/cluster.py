"""A Spark standalone cluster of separate processes on the loopback device: a master, and workers that can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.spark_home import home_without_zip, options_with_classes

__all__ = ["Cluster", "Machine", "eventually", "running_cluster", "start"]

ROOT = Path(__file__).parents[2]
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass(frozen=True)
class Machine:
    """A machine as an operator would set it up. Its own Python has nothing; programs bring an environment.

    Attributes:
        spark_home: Where Spark is.
        folder: For logs and scratch files.
    """

    spark_home: Path
    folder: Path

    @staticmethod
    def set_up(folder: Path) -> Machine:
        """A machine with the Spark that is installed here."""
        home = home_without_zip()
        assert home is not None
        return Machine(Path(home), folder)

    def environment(self, **more: str) -> dict[str, str]:
        """What the processes of Spark are told."""
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG", "PATH") if name in os.environ}
        ours = {
            "HOME": str(self.folder),
            "SPARK_DAEMON_JAVA_OPTS": options_with_classes(),
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_HOME": str(self.spark_home),
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
        }
        return {**kept, **ours, **more}

    def command(self, program: str) -> str:
        """The path of one of Spark's commands."""
        return str(self.spark_home / "bin" / program)


class Process:
    """A process with all its children, and its log.

    Args:
        name: Names the log.
        command: What to start.
        machine: Where.
        environment: What it is told besides.
    """

    def __init__(self, name: str, command: Iterable[str], machine: Machine, **environment: str) -> None:
        self.log = machine.folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                list(command),
                cwd=machine.folder,
                env=machine.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL to it and its children; its Python workers end when their pipe breaks."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """The exit code."""
        return self._process.wait(seconds)

    @property
    def text(self) -> str:
        """The log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def told(self, what: Callable[[str], bool]) -> bool:
        """Whether the log says so. Fails if the process has ended."""
        told = what(self.text)
        assert told or self._process.poll() is None, f"{self.log.name} ends in\n{self.text[-3000:]}"
        return told


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        machine: Where its processes run.
        url: The master's.
        workers: One process each, with the executors that it has started.
    """

    machine: Machine
    url: str
    workers: tuple[Process, ...]


@contextmanager
def running_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A master and workers with a core each; all are gone at the end."""
    machine = Machine.set_up(folder)
    with ExitStack() as stack:
        master = start(stack, "master", [*_class(machine, "master.Master"), "--port", "0"], machine)
        eventually(lambda: master.told(lambda text: bool(_MASTER.search(text))))
        found = _MASTER.search(master.text)
        assert found is not None
        url = found.group(1)
        started = tuple(
            start(stack, f"worker-{number}", _worker(machine, url, number), machine) for number in range(workers)
        )
        eventually(lambda: master.told(lambda text: text.count("Registering worker") == workers))
        yield Cluster(machine, url, started)


def start(stack: ExitStack, name: str, command: Iterable[str], machine: Machine, **environment: str) -> Process:
    """Start a process that is killed at the end of ``stack``."""
    process = Process(name, command, machine, **environment)
    stack.callback(process.kill)
    return process


def _class(machine: Machine, name: str) -> list[str]:
    return [
        machine.command("spark-class"),
        f"org.apache.spark.deploy.{name}",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
    ]


def _worker(machine: Machine, url: str, number: int) -> list[str]:
    work = machine.folder / f"work-{number}"
    resources = ["--cores", "1", "--memory", "1g", "--work-dir", str(work)]
    return [*_class(machine, "worker.Worker"), *resources, url]


def eventually(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.05)

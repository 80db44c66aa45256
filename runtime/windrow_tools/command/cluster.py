"""Checks, by tasks on the executors of a cluster, what pipelines need there."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from packaging.requirements import Requirement
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import windrow
from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.distribution import DISTRIBUTION
from windrow.distribution import PACKAGES as OWN_PACKAGES
from windrow.entry_points import names
from windrow.errors import WindrowError
from windrow_spark import PACKAGES
from windrow_spark.checkpoint.storage import HadoopPath, unset_elsewhere, write_whole
from windrow_spark.daemon import DAEMON_MODULE
from windrow_spark.faults import engine_errors
from windrow_spark.run.background import uninterrupted
from windrow_spark.session import is_connect
from windrow_tools.command.findings import Finding, failed, say

# Any in this module: what tasks send as JSON.

_DAEMON: Final = "spark.python.daemon.module"
_CONNECTORS: Final = ("windrow.readers", "windrow.writers")
_NOT_FOR_WORKERS: Final = frozenset({"connect", "dev", "docs", "release", "test", "testing", "view"})
_ROUNDS: Final = 8
_TASK_SECONDS: Final = 0.3
"""How long a task lasts, so that Spark gives others to other executors."""
_CORES: Final = 8
"""Of a server of Spark Connect, which does not say how many it has."""
_CLOCK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Executor:
    """What tasks have found on an executor.

    Attributes:
        host: The name of its machine.
        python: The version of its Python.
        versions: Those of packages, by name; None: it is not there.
        failed: Why packages of windrow, and those that it needs, cannot be imported.
        connectors: How many connectors windrow finds there.
        began_imported: Whether a new worker had windrow's modules before its first task.
        ahead: By how many seconds its clock is ahead of the driver's, at least and at most.
        folder: Why it cannot use the folder of the checkpoint; None: it can, or none was given.
    """

    host: str
    python: str
    versions: Mapping[str, str | None]
    failed: Sequence[str] = ()
    connectors: int = 0
    began_imported: bool = True
    ahead: tuple[float, float] = (0.0, 0.0)
    folder: str | None = None


@dataclass
class _Folder:
    """The folder of a checkpoint in which the driver and tasks write files for a check; it is gone afterwards.

    Attributes:
        path: The folder for these files.
        url: Whether only Spark opens it.
    """

    spark: SparkSession
    checkpoint: str
    local: str | None = field(init=False)
    _is_new: bool = field(init=False, default=False)
    path: str = field(init=False)

    def __post_init__(self) -> None:
        local = local_path(self.checkpoint)
        self.local = None if local is None else os.path.abspath(local)
        self._is_new = self.local is not None and not os.path.exists(self.local)
        self.path = f"{self.local or self.checkpoint.rstrip('/')}/_doctor-{token_hex(4)}"

    @property
    def _opened(self) -> Path | HadoopPath:
        return HadoopPath.of(self.spark, self.path, uninterrupted) if self.local is None else Path(self.path)

    def write(self) -> None:
        """Writes the file that tasks look for."""
        folder = self._opened
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "of-the-driver", self.path)

    def unseen(self, hosts: Iterable[str]) -> list[str]:
        """Returns the hosts whose tasks have written a file that is not here."""
        return sorted(host for host in hosts if not (Path(self.path) / f"of-{host}").is_file())

    def clear(self) -> None:
        """Deletes what was written, and the checkpoint's folder if it was not there before."""
        with suppress(OSError):
            folder = self._opened
            if isinstance(folder, HadoopPath):
                folder.clear()
                return
            shutil.rmtree(folder)
            if self._is_new:
                folder.parent.rmdir()


def cluster_findings(
    spark: SparkSession, checkpoint: str | None, job: Callable[[int, str | None], Finding]
) -> Iterator[Finding]:
    """Runs small tasks on all executors of a session, and tells what they found; at last a job, if all is well.

    The job gets the number of partitions, and the folder of a checkpoint if there is one.
    """
    folder = None if checkpoint is None else _Folder(spark, checkpoint)
    shown_folder = f"checkpoint {redact_address(checkpoint or '')}"
    try:
        if folder is not None:
            try:
                folder.write()
            except OSError as error:
                yield Finding(f"{shown_folder}: the driver cannot write there ({error})", "choose another folder")
                folder = None
        say("waiting for tasks on the executors")
        try:
            with engine_errors("tasks on the executors"):
                executors = found(spark, None if folder is None or folder.local is None else folder.path)
        except WindrowError as error:
            yield failed(error)
            return
        findings = [
            executors_finding(executors),
            *package_findings(executors, _own_versions()),
            import_finding(executors, sum(len(names(group)) for group in _CONNECTORS)),
            daemon_finding(executors, spark.conf.get(_DAEMON, None)),
            clock_finding(executors),
        ]
        if folder is not None and folder.local is not None:
            unseen = folder.unseen(each.host for each in executors if each.folder is None)
            findings.append(folder_finding(shown_folder, executors, unseen))
        elif folder is not None:
            findings.append(_url_finding(spark, shown_folder, folder.path))
        yield from findings
        if any(finding.mend for finding in findings):
            yield Finding("job on Spark: not tried", "mend what is above first")
        else:
            yield job(max(2, len(executors)), None if folder is None else f"{folder.path}/checkpoint")
    finally:
        if folder is not None:
            folder.clear()


def found(spark: SparkSession, folder: str | None) -> list[Executor]:
    """Returns what tasks find on each executor that has come by then; executors may come while tasks run."""
    probe = udf(_probe([*_own_versions()], folder), "string", useArrow=False)
    executors: dict[str, Executor] = {}
    for number in range(_ROUNDS):
        cores, count_before = _cores(spark), len(executors)
        # All tasks of the last rounds are short, so that the times around them are near.
        began, tasks = time.time(), 2 * cores
        rows = spark.range(0, tasks, 1, tasks).select(probe("id").alias("found")).collect()
        ended = time.time()
        for row in rows:
            facts: dict[str, Any] = json.loads(row["found"])
            name, at = facts.pop("executor"), facts.pop("at")
            executor = executors.setdefault(name, Executor(**facts, ahead=(-float("inf"), float("inf"))))
            lowest, highest = executor.ahead
            ahead = (max(lowest, at - ended), min(highest, at - began))
            executors[name] = replace(executor, ahead=ahead)
        if number > 1 and len(executors) == count_before and cores == _cores(spark):
            break
    return sorted(executors.values(), key=lambda each: each.host)


def _cores(spark: SparkSession) -> int:
    return _CORES if is_connect(spark) else spark.sparkContext.defaultParallelism


def _own_versions() -> dict[str, str]:
    """Returns the versions of windrow, of what it needs on Spark, and of packages of its extras that are here."""
    try:
        needs = map(Requirement, metadata.distribution(DISTRIBUTION).requires or ())
        extras = set(metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()) - _NOT_FOR_WORKERS
        wanted = {
            need.name
            for need in needs
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
        }
    except metadata.PackageNotFoundError:
        wanted = set()
    versions = {"windrow": windrow.__version__}
    for name in sorted({*wanted, *PACKAGES.values()} - {DISTRIBUTION}):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _probe(packages: Sequence[str], folder: str | None) -> Callable[[int], str]:
    """Returns the function of the tasks. Spark sends it as a copy, since windrow may be missing where they run."""
    modules, groups, seconds = [*OWN_PACKAGES, *PACKAGES], _CONNECTORS, _TASK_SECONDS

    def probe(number: int) -> str:
        import importlib
        import json
        import os
        import platform
        import socket
        import sys
        import time
        from importlib import metadata

        at, began_imported = time.time(), "windrow_spark.sources.stage" in sys.modules
        failed = []
        versions: dict[str, str | None] = {}
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
        for name in packages:
            try:
                versions[name] = metadata.version(name)
            except metadata.PackageNotFoundError:
                # Spark brings pyspark in an archive, and windrow may come so.
                versions[name] = getattr(sys.modules.get(name), "__version__", None)
        host, problem = socket.gethostname(), None
        if folder is not None:
            try:
                with open(os.path.join(folder, "of-the-driver"), encoding="utf-8") as file:
                    if file.read() != folder:
                        raise OSError("the file of the driver has another content")
                with open(os.path.join(folder, f"of-{host}"), "w", encoding="utf-8") as file:
                    file.write(host)
            except OSError as error:
                problem = str(error)
        connectors = len({(group, entry.name) for group in groups for entry in metadata.entry_points(group=group)})
        time.sleep(seconds)
        return json.dumps(
            {
                "executor": f"{host} {os.getppid()}",
                "at": at,
                "host": host,
                "python": platform.python_version(),
                "versions": versions,
                "failed": failed,
                "connectors": connectors,
                "began_imported": began_imported,
                "folder": problem,
            }
        )

    return probe


def executors_finding(executors: Sequence[Executor]) -> Finding:
    """Tells which executors there are."""
    hosts = sorted({each.host for each in executors})
    pythons = ", ".join(sorted({each.python for each in executors}))
    return Finding(f"executors: {len(executors)} on {', '.join(hosts)}, Python {pythons}")


def package_findings(executors: Sequence[Executor], own: Mapping[str, str]) -> Iterator[Finding]:
    """Compares the versions of packages with those of the driver."""
    same = []
    for name, version in own.items():
        others: dict[str | None, set[str]] = defaultdict(set)
        for each in executors:
            others[each.versions.get(name)].add(each.host)
        others.pop(version, None)
        if not others:
            same.append(f"{name} {version}")
            continue
        versions_of_others = [f"{other or 'not installed'} on {_hosts(hosts)}" for other, hosts in others.items()]
        package = DISTRIBUTION if name == "windrow" else name
        yield Finding(
            f"{name}: {version} on the driver, {', '.join(versions_of_others)}",
            f"pip install '{package}=={version}' in the Python of these workers, "
            "or ship one environment to all with --archives",
        )
    if same:
        yield Finding(f"packages as on the driver: {', '.join(same)}")


def import_finding(executors: Sequence[Executor], connectors: int) -> Finding:
    """Checks whether workers import windrow and what it needs, and find its connectors."""
    failed = {f"{text} on {each.host}" for each in executors for text in each.failed}
    if failed:
        return Finding(f"workers cannot import {'; '.join(sorted(failed))}", "see the packages above")
    few = {each.host for each in executors if each.connectors < connectors}
    if few:
        return Finding(
            f"workers on {_hosts(few)} find fewer of windrow's connectors than the driver",
            "install windrow there, or ship its folder *.dist-info beside its packages",
        )
    return Finding("workers import windrow, and find its connectors")


def daemon_finding(executors: Sequence[Executor], module: str | None) -> Finding:
    """Tells whether workers begin with windrow imported."""
    if module != DAEMON_MODULE:
        set_to = "not set" if module is None else module
        return Finding(
            f"{_DAEMON}: {set_to}; with {DAEMON_MODULE} the first batch on each executor is seconds faster, "
            "where windrow is installed on all machines"
        )
    without = {each.host for each in executors if not each.began_imported}
    if without:
        return Finding(
            f"{_DAEMON}: workers on {_hosts(without)} begin without windrow's modules", "see the imports above"
        )
    return Finding(f"{_DAEMON}: workers begin with windrow's modules")


def clock_finding(executors: Sequence[Executor]) -> Finding:
    """Compares the clocks with that of the driver. Results do not depend on them; signed requests and logins do."""
    behind, ahead = min(each.ahead[1] for each in executors), max(each.ahead[0] for each in executors)
    off = {each.host: each.ahead for each in executors if each.ahead[0] > 0 or each.ahead[1] < 0}
    hosts_off = ", ".join(
        f"{host} {abs(lowest + highest) / 2:.1f} s {'ahead' if lowest > 0 else 'behind'}"
        for host, (lowest, highest) in off.items()
    )
    widest = max((highest - lowest) / 2 for lowest, highest in (each.ahead for each in executors))
    text = f"clocks: {hosts_off or 'as that of the driver'}, measured to {widest:.1f} s"
    if behind < -_CLOCK_SECONDS or ahead > _CLOCK_SECONDS:
        return Finding(text, "have the machines set their clocks by one server of time")
    return Finding(text)


def folder_finding(shown: str, executors: Sequence[Executor], unseen: Sequence[str]) -> Finding:
    """Tells whether all machines read and write the folder of the checkpoint."""
    failed = sorted({f"{each.host}: {each.folder}" for each in executors if each.folder is not None})
    mend = (
        "mount one file system at this path on all machines, where the user of the executors may write, or give s3a://"
    )
    if failed:
        return Finding(f"{shown}: tasks cannot use it, {'; '.join(failed)}", mend)
    if unseen:
        return Finding(f"{shown}: the driver does not see what tasks wrote on {', '.join(unseen)}", mend)
    return Finding(f"{shown}: the driver and all executors read and write it")


def _url_finding(spark: SparkSession, shown: str, path: str) -> Finding:
    """Has the executors' JVM write files, as it writes state, and the driver read them."""
    count = _cores(spark)
    try:
        with engine_errors(shown):
            # Executors keep the file system as it is opened here, and the job below stores its state by it.
            settings = unset_elsewhere(spark)
            rows = spark.range(0, count, 1, count).selectExpr("cast(id as string)")
            rows.write.options(**settings).text(f"{path}/of-tasks")
            read = spark.read.options(**settings).text(f"{path}/of-tasks").count()
    except WindrowError as error:
        return failed(error)
    if read != count:
        return Finding(f"{shown}: {count} tasks wrote a row each, and {read} are there", "choose another store")
    return Finding(f"{shown}: the driver and the executors' Spark read and write it")


def _hosts(hosts: Iterable[str]) -> str:
    return ", ".join(sorted(hosts))

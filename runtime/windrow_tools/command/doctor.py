"""Checks what this machine needs to run pipelines on Spark, and says how to mend what is wrong.

It looks at versions, Java, the name of the host and the Python of Spark's workers, and runs a small pipeline on a Spark
of this machine, or with --cluster on that of a cluster, where tasks look at the executors. The exit code is 1 if
anything is wrong.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import windrow
from windrow import Pipeline, WatermarkStrategy, from_collection
from windrow import aggregates as agg
from windrow.addresses.paths import checked_path
from windrow.addresses.redaction import redact_address
from windrow.distribution import DISTRIBUTION, install_hint
from windrow.distribution import PACKAGES as OWN_PACKAGES
from windrow.errors import InvalidArgumentError, UnsupportedOperationError, WindrowError
from windrow.sinks import CollectSink
from windrow.windows import TumblingEventTimeWindows
from windrow_spark import PACKAGES
from windrow_spark.checkpoint.storage import S3A_UPLOADS
from windrow_spark.java import check_java
from windrow_tools.command.failures import ExitCode
from windrow_tools.command.findings import Finding, failed, say, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER_PROGRAM: Final = """
import importlib, json, sys
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print(json.dumps([list(sys.version_info[:2]), failed]))
"""
_WORKER_SECONDS: Final = 120
_OF_CONTRIBUTORS: Final = {"test", "docs", "release", "dev"}
"""The extras that pipelines do not use."""


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("--no-spark", action="store_true", help="leave out the job on Spark, which takes some seconds")
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="MASTER",
        help="look at the executors of a cluster, such as spark://host:7077, and run the job there; without MASTER, "
        "that of Spark's configuration",
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="with --cluster, a folder that pipelines are to use")


def prepare(options: Namespace) -> Callable[[], int]:
    """Returns the checks."""
    if options.cluster is not None and options.no_spark:
        raise InvalidArgumentError("--cluster looks at a cluster by tasks of Spark", given="--cluster --no-spark")
    if options.checkpoint is not None:
        if options.cluster is None:
            raise InvalidArgumentError("--checkpoint belongs to a cluster", expected="--cluster with --checkpoint")
        checked_path(options.checkpoint, "a checkpoint is kept at")

    def check() -> int:
        is_well = shown(_machine())
        if not options.no_spark:
            if not is_well:
                shown([Finding("job on Spark: not tried", "mend what is above first")])
            elif options.cluster is None:
                say("waiting for Spark to start and to run a small job, which takes some 20 seconds")
                is_well = shown([_job(verbose=options.verbose)])
            else:
                is_well = shown(_cluster(options.cluster, options.checkpoint, verbose=options.verbose))
        return ExitCode.OK if is_well else ExitCode.FAILED

    return check


def _cluster(master: str, checkpoint: str | None, *, verbose: bool) -> Iterator[Finding]:
    """Starts a session on a cluster, looks at its executors, and runs the job there."""
    from pyspark.sql import SparkSession

    from windrow_spark.faults import engine_errors
    from windrow_spark.quiet import quiet_session
    from windrow_tools.command.cluster import cluster_findings

    builder = SparkSession.builder.appName("windrow doctor").config("spark.ui.showConsoleProgress", "false")
    if master:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    is_remote = master.startswith("sc://") or (not master and "SPARK_REMOTE" in os.environ)
    say(f"waiting for Spark{' on ' if master else ''}{redact_address(master)}")
    try:
        with engine_errors(redact_address(master) or "the master of Spark's configuration"):
            spark = builder.getOrCreate() if verbose or is_remote else quiet_session(builder.getOrCreate)
    except WindrowError as error:
        yield failed(error)
        return
    yield from cluster_findings(spark, checkpoint, lambda partitions, folder: _job(spark, partitions, folder))


def _machine() -> Iterator[Finding]:
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        folder = Path(windrow.__file__).parent
        yield Finding(f"windrow {windrow.__version__} of {folder}, not installed: the bounds of versions are not known")
        needed, python = [Requirement(name) for name in PACKAGES.values()], SpecifierSet()
        texts, extras = list[str](), set[str]()
    else:
        yield Finding(f"windrow {windrow.__version__}")
        texts = distribution.requires or []
        needed = requirements(texts)
        python = SpecifierSet(distribution.metadata["Requires-Python"])
        extras = {*(distribution.metadata.get_all("Provides-Extra") or ())} - _OF_CONTRIBUTORS - {"spark"}
    yield python_finding(python, platform.python_version())
    yield _java()
    for requirement in needed:
        yield package_finding(requirement, _installed(requirement.name))
    yield from extra_findings(texts, extras, _installed)
    yield host_finding(os.environ.get("SPARK_LOCAL_IP"), socket.gethostname())
    say("waiting for the Python of workers to import windrow and Arrow")
    yield worker_finding(os.environ.get("PYSPARK_PYTHON") or sys.executable)
    if _installed("pyspark") is not None:
        # Spark only once it is there.
        from windrow_spark.session import configuration

        yield from s3_findings(configuration())


def s3_findings(texts: Iterable[str]) -> Iterator[Finding]:
    """Checks the settings for checkpoints on S3, where Spark's configuration has its client or that setting."""
    text = "\n".join(texts)
    uploads = re.search(rf"{re.escape(S3A_UPLOADS)}[\s=]+(\w+)", text)
    if uploads is not None and uploads[1].lower() == "true":
        yield Finding(
            f"checkpoints on s3a://: {S3A_UPLOADS}=true, with which files of state cannot be uploaded",
            "leave it out, or set it to false",
        )
    elif uploads is not None or "hadoop-aws" in text:
        yield Finding(f"checkpoints on s3a://: {S3A_UPLOADS}=false, which windrow sets where it is left out")


def requirements(texts: Iterable[str]) -> list[Requirement]:
    """Reads the requirements of windrow and of its extra ``spark`` out of a distribution's metadata."""
    needs = map(Requirement, texts)
    return [need for need in needs if need.marker is None or need.marker.evaluate({"extra": "spark"})]


def extra_findings(
    texts: Iterable[str], extras: Iterable[str], installed: Callable[[str], str | None]
) -> Iterator[Finding]:
    """Tells which extras have all of their packages. A pipeline need not use any, so none of this is wrong."""
    needs = [need for need in map(Requirement, texts) if need.marker is not None and need.name != DISTRIBUTION]
    absent = []
    for extra in sorted(extras):
        own = [need for need in needs if need.marker is not None and need.marker.evaluate({"extra": extra})]
        versions = {need.name: installed(need.name) for need in own}
        if None in versions.values():
            absent.append(extra)
            continue
        for need in own:
            version = versions[need.name]
            if version is not None and not need.specifier.contains(version, prereleases=True):
                yield Finding(f"{need.name} {version}: the extra {extra} needs {need.specifier}")
    if absent:
        yield Finding(f"extras that are not installed: {', '.join(absent)}; with all: {install_hint(','.join(absent))}")


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def python_finding(needed: SpecifierSet, version: str) -> Finding:
    """Checks the version of this Python."""
    return Finding(
        f"Python {version}, {sys.executable}",
        None
        if needed.contains(version, prereleases=True)
        else f"windrow needs Python {needed}: make an environment with one",
    )


def package_finding(needed: Requirement, version: str | None) -> Finding:
    """Checks the version of a package; None: it is not installed."""
    install = f"pip install '{needed.name}{needed.specifier}'"
    if version is None:
        return Finding(f"{needed.name}: not installed", f"{install_hint('spark')}, or {install}")
    bounds = f", within {needed.specifier}" if needed.specifier else ""
    if needed.specifier.contains(version, prereleases=True):
        return Finding(f"{needed.name} {version}{bounds}")
    return Finding(f"{needed.name} {version}: windrow needs {needed.specifier}", install)


def _java() -> Finding:
    try:
        return Finding(check_java())
    except UnsupportedOperationError as error:
        details = f" ({error.given})" if error.given else ""
        return Finding(f"Java: {error.message}{details}", f"{error.expected}; {error.hint}")


def host_finding(local_ip: str | None, name: str) -> Finding:
    """Checks whether Spark can listen at the address that it takes for its own, by ``SPARK_LOCAL_IP`` or the name."""
    shown = f"host name {name}" if local_ip is None else f"SPARK_LOCAL_IP={local_ip}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(local_ip or name, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # a name of empty labels has no form in DNS
        return Finding(f"{shown}: does not resolve ({error})", _mended_host(local_ip, name))
    try:
        with socket.socket(family, kind) as listening:
            listening.bind(address)
    except OSError as error:
        return Finding(f"{shown}: Spark cannot listen at {address[0]} ({error})", _mended_host(local_ip, name))
    return Finding(f"{shown}, {address[0]}")


def _mended_host(local_ip: str | None, name: str) -> str:
    if local_ip is not None:
        return "unset SPARK_LOCAL_IP, or set it to an address of this machine, such as 127.0.0.1"
    return f"export SPARK_LOCAL_IP=127.0.0.1, or add the line `127.0.0.1 {name}` to /etc/hosts"


def worker_finding(python: str) -> Finding:
    """Checks whether the Python of Spark's workers has the version of this one, and imports what workers need."""
    shown = f"Python of workers, {python}"
    names = [*OWN_PACKAGES, *(module for module in PACKAGES if module != "pyspark")]
    paths = [*_own_folders(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    mend = f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
    try:
        process = subprocess.run(
            [python, "-c", _WORKER_PROGRAM, *names],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=_WORKER_SECONDS,
        )
        version, failed = json.loads(process.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return Finding(f"{shown}: cannot be run ({error})", mend)
    if tuple(version) != sys.version_info[:2]:
        own_version = ".".join(map(str, sys.version_info[:2]))
        return Finding(f"{shown}: is Python {version[0]}.{version[1]}, and this one {own_version}", mend)
    if failed:
        return Finding(f"{shown}: cannot import {'; '.join(failed)}", f"{mend}; or in it: {install_hint('spark')}")
    return Finding(f"{shown}, imports windrow")


def _own_folders() -> list[str]:
    """Returns windrow's folders if it is not installed: a session on this machine passes them to its workers."""
    folders = dict.fromkeys(str(Path(file).parents[1]) for file in (windrow.__file__, str(Path(__file__).parent)))
    return [folder for folder in folders if not folder.endswith(("site-packages", "dist-packages"))]


def _job(
    spark: SparkSession | None = None,
    partitions: int | None = None,
    folder: str | None = None,
    *,
    verbose: bool = False,
) -> Finding:
    """Runs a pipeline on a Spark of this machine, or in a session: as a batch job unless a checkpoint is given."""
    # Spark only where it is asked for, and once its packages are there.
    from windrow_spark import SparkRunner

    began = time.monotonic()
    sink = CollectSink[int]()
    stamped = from_collection(range(1000)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda number: number
    )
    windows = stamped.key_by(lambda number: number % 10).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    pipeline = Pipeline("doctor", windows.aggregate(agg.count()).sink_to(sink))
    try:
        runner = SparkRunner(spark, checkpoint=folder, partitions=partitions, verbose=verbose)
        result = runner.run(pipeline) if spark is None or folder is not None else runner.run_batch(pipeline)
    except WindrowError as error:
        return failed(error, "job on Spark: ")
    except Exception as error:
        return Finding(
            f"job on Spark: {type(error).__name__}: {error}", "run it with --verbose, which shows Spark's messages"
        )
    return job_finding(result.collected(sink), time.monotonic() - began)


def job_finding(counts: Sequence[int], seconds: float) -> Finding:
    """Checks what the job has counted."""
    if list(counts) == [100] * 10:
        return Finding(f"job on Spark: 1,000 elements in windows, {seconds:.1f} s")
    return Finding(f"job on Spark: it counted {counts}", "please report this: each of ten keys has 100 elements")

"""An HDFS of one node. PySpark brings its client."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.services.errors import NoServiceError
from tests.services.jars import Jars
from tests.services.server import LOOPBACK, Server, free_ports, new_folder, running_server, start_server

__all__ = ["CLUSTER", "running", "web_address"]

CLUSTER: Final = Jars("HDFS", ("org.apache.hadoop:hadoop-client-minicluster:3.5.0", "org.slf4j:slf4j-simple:1.7.36"))
"""Hadoop's own cluster for tests, and a logger that writes to standard error."""

_NAME: Final = "hdfs"
_WEB: Final = "web"
_JAVA: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def launch(*, outlives: bool = False) -> Server:
    """Start one in a new folder of its own, and wait until it answers; see :func:`start_server`."""
    java = shutil.which(os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java")) or shutil.which("java")
    if java is None:
        raise NoServiceError("no HDFS: java is not on PATH (apt-get install openjdk-17-jre-headless)")
    CLUSTER.fetch()
    with new_folder(_NAME) as folder:
        port, web_port = free_ports(2)
        command = [java, *_JAVA, "-cp", f"{CLUSTER.folder}/*", "org.apache.hadoop.test.MiniDFSClusterManager"]
        # It writes its details once the node takes files.
        details = folder / "details"
        given = ["-format", "-nnport", str(port), "-httpport", str(web_port), "-writeDetails", str(details)]
        (folder / _WEB).write_text(f"{LOOPBACK}:{web_port}", encoding="utf-8")
        return start_server(
            _NAME,
            [*command, *given, "-D", f"hdfs.minidfs.basedir={folder}/data"],
            folder,
            address=f"{LOOPBACK}:{port}",
            answers=lambda: details.exists() and _listens(port),
            outlives=outlives,
        )


def _listens(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


@contextmanager
def running() -> Iterator[Server]:
    """The HDFS that ``python -m tests.services hdfs start`` has started, or a new one until the end.

    Raises:
        NoServiceError: If Java is missing, or the jars cannot be fetched.
    """
    with running_server(_NAME, launch) as server:
        yield server


def web_address(server: Server) -> str:
    """Where an HDFS answers by HTTP, for programs without its client."""
    return (Path(server.folder) / _WEB).read_text(encoding="utf-8")


def fetch() -> None:
    """Bring the jars into the cache."""
    CLUSTER.fetch()

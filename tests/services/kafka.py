"""A Kafka broker of one node, and the jars of Spark's connector to it."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services.certificates import Certificates
from tests.services.errors import NoServiceError
from tests.services.jars import Jars
from tests.services.server import LOOPBACK, Server, free_ports, new_folder, running_server, start_server

__all__ = [
    "BROKER",
    "CONNECTOR",
    "MAKES_TOPICS",
    "PASSWORD",
    "RESTARTS_SOON",
    "USER",
    "SecureListeners",
    "launch",
    "restart_kafka",
    "running_kafka",
]

BROKER: Final = Jars("Kafka", ("org.apache.kafka:kafka_2.13:4.4.0", "org.slf4j:slf4j-simple:1.7.36"))
"""The broker, and a logger that writes to standard error."""

# The newest connector that is published; it works with later versions of Spark. PySpark brings all else that it needs.
CONNECTOR: Final = Jars(
    "connector of Spark to Kafka",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    with_dependencies=False,
)
"""What a session needs in ``spark.jars`` to read and write topics."""

_NAME: Final = "kafka"
_JAVA: Final = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Of internal topics there is one replica and one partition, and consumers join a group at once. Records stay for ever:
# tests give them times of years ago, which brokers delete every five minutes. Brokers make topics by default, and so do
# those with ``MAKES_TOPICS``; many tests need one that is not there.
_PROPERTIES: Final = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={host}:{controller_port}
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
"""
MAKES_TOPICS: Final = "auto.create.topics.enable=true\nnum.partitions=3\n"
"""Properties of a broker that makes topics by itself, as brokers do by default, with so many partitions."""

RESTARTS_SOON: Final = "broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=400\n"
"""Properties of a broker that is killed and comes back: it may not before the session of the one before has ended."""

USER, PASSWORD = "ann", "hunter22"
"""Who may log in at a broker with :class:`SecureListeners`."""

_SECURE: Final = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port},SASL_SSL://{host}:{sasl},SSL://{host}:{tls}
advertised.listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{sasl},SSL://{host}:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


@dataclass(frozen=True)
class SecureListeners:
    """The ports of a broker that take connections by TLS: one asks for a login, one for a certificate of the client."""

    certificates: Certificates
    sasl: int
    tls: int

    def properties(self, host: str, port: int, controller_port: int) -> str:
        """The lines of the broker's properties."""
        files = {"keystore": self.certificates.server, "authority": self.certificates.authority}
        ports = {"port": port, "controller_port": controller_port, "sasl": self.sasl, "tls": self.tls}
        return _SECURE.format(host=host, **ports, **files, user=USER, password=PASSWORD)

    @property
    def login(self) -> list[str]:
        """What ``kafka-storage format`` is told, which keeps the passwords for SCRAM."""
        return ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"]


# The length, the number of ApiVersions, its version 0, a number for the answer, and no name of a client.
_ASKS_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def launch(
    *, outlives: bool = False, properties: str = "", host: str = LOOPBACK, secure: SecureListeners | None = None
) -> Server:
    """Start a broker in a new folder of its own, and wait until it answers; see :func:`start_server`.

    ``properties`` are lines that take precedence over those of other tests; ``host`` is the address for clients, and
    ``secure`` has further ports.

    Raises:
        NoServiceError: If Java is missing, or the jars cannot be fetched.
    """
    program = _program()
    BROKER.fetch()
    with new_folder(_NAME) as folder:
        return _start(program, folder, host, properties, secure, outlives=outlives)


def restart_kafka(server: Server) -> Server:
    """Kill a broker, and start it again with what it has stored, at the same address."""
    server.kill()
    host, _, port = server.address.rpartition(":")
    return _run(_program(), Path(server.folder), (host, int(port)), outlives=False)


def _program() -> list[str]:
    java = shutil.which(os.path.join(os.environ.get("JAVA_HOME", ""), "bin", "java")) or shutil.which("java")
    if java is None:
        raise NoServiceError("no Kafka: java is not on PATH (apt-get install openjdk-17-jre-headless)")
    return [java, *_JAVA, "-cp", f"{BROKER.folder}/*"]


def _start(
    program: Sequence[str], folder: Path, host: str, own: str, secure: SecureListeners | None, *, outlives: bool
) -> Server:
    port, controller_port = free_ports(2)
    properties = folder / "server.properties"
    lines = _PROPERTIES.format(host=host, port=port, controller_port=controller_port, folder=folder)
    own += "" if secure is None else secure.properties(host, port, controller_port)
    properties.write_text(lines + own, encoding="utf-8")
    # The number of a cluster is 16 bytes; it must not begin with a dash.
    cluster = base64.urlsafe_b64encode(b"w" + os.urandom(15)).decode().rstrip("=")
    storage = [*program, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(properties)]
    storage += [] if secure is None else secure.login
    done = subprocess.run(storage, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Kafka cannot format its folder: {done.stdout}{done.stderr}")
    return _run(program, folder, (host, port), outlives=outlives)


def _run(program: Sequence[str], folder: Path, address: tuple[str, int], *, outlives: bool) -> Server:
    return start_server(
        _NAME,
        [*program, "kafka.Kafka", str(folder / "server.properties")],
        folder,
        address=f"{address[0]}:{address[1]}",
        answers=lambda: answers(address),
        outlives=outlives,
    )


@contextmanager
def running_kafka() -> Iterator[Server]:
    """The broker that ``python -m tests.services kafka start`` has started, or a new one until the end.

    Raises:
        NoServiceError: As :func:`launch`.
    """
    with running_server(_NAME, launch) as server:
        yield server


def answers(address: tuple[str, int]) -> bool:
    """Whether a broker answers a question for the versions of its requests."""
    try:
        with socket.create_connection(address, timeout=1) as connection:
            connection.settimeout(5)
            connection.sendall(_ASKS_VERSIONS)
            return bool(connection.recv(1))
    except OSError:
        return False


def fetch() -> None:
    """Bring the jars into the cache."""
    BROKER.fetch()
    CONNECTOR.fetch()

"""Checks whether a session has Spark's connector for Kafka and whether brokers answer, and translates its errors."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyspark
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from windrow.addresses.redaction import redact
from windrow.connectors.registry_formats import RegistryFormat
from windrow.errors import EngineError, SourceError, UnsupportedOperationError, WindrowError
from windrow.kafka import KafkaSink, TopicSource
from windrow.plan import Step
from windrow_runtime.spark.session import lacks_jar

# Any in this module: elements of every type, and pyarrow has no types.

_JAR = "spark-sql-kafka-0-10"
# Spark 4.3 has an error condition for a missing connector, earlier versions the one for all sources or none. If the
# connector lacks a library that it needs, Java names the missing class.
_NOT_THERE = re.compile(
    r"KAFKA_DATA_SOURCE_NOT_ENABLED|Failed to find (?:the )?data source: `?kafka|ClassNotFoundException: kafka"
    r"|(?:NoClassDefFoundError|ClassNotFoundException): org[./]apache[./](?:spark[./]sql[./])?kafka"
)
_GONE = re.compile(r"Some data may have been lost.*?^Reason: ([^\n]*)", re.DOTALL | re.MULTILINE)
_PARTITION = re.compile(r"([\w.-]+)-\d+")
_NO_TOPIC = "UnknownTopicOrPartitionException"
_ANSWER_SECONDS: Final = 10.0
_SERVER = re.compile(r"(?:\w+://)?\[?([^\]/]+?)\]?:(\d+)")
# The length, the number of the request ApiVersions, its version 0, the number of the answer, and no name of a client.
_ASKS_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def check_session(end: TopicSource[Any] | KafkaSink[Any], where: str, *, starts: bool) -> None:
    """Refuse topics before a session ``starts`` that is known to lack the connector, or a registry in the process.

    Each worker would have a registry of its own.
    """
    value_format = end.value_format
    if isinstance(value_format, RegistryFormat) and value_format.registry.startswith("mock://"):
        raise UnsupportedOperationError(
            "a schema registry within the process is not that of Spark's workers",
            given=f"{value_format!r}",
            expected='the address of a server, such as "http://localhost:8081"',
            where=where,
            hint="LocalRunner takes mock:// in tests",
        )
    if starts and end.engine_connector and lacks_jar(_JAR):
        raise _connector_missing(end, where, pyspark.__version__)


def _connector_missing(end: TopicSource[Any] | KafkaSink[Any], where: str, version: str) -> WindrowError:
    package = f"org.apache.spark:{_JAR}_2.13:{version}"
    return UnsupportedOperationError(
        "Spark's connector for Kafka is not there",
        given=end.describe(),
        expected="a session that was started with the connector",
        where=where,
        hint=f"spark-submit --packages {package}; "
        "in a program, .config('spark.jars.packages', ...) where the session is built",
    )


@contextmanager
def connector_errors(spark: SparkSession, where: str, end: TopicSource[Any] | KafkaSink[Any]) -> Iterator[None]:
    """Turns Spark's errors about the connector and its options into windrow's errors, without secrets."""
    try:
        yield
    except WindrowError:
        raise
    except Exception as error:
        if _NOT_THERE.search(str(error)):
            raise _connector_missing(end, where, spark.version) from None
        if not isinstance(error, AnalysisException | IllegalArgumentException):
            raise
        # The error is not chained: Spark's text may hold the value of an option.
        raise SourceError(
            "Spark refuses the options for Kafka",
            given=end.describe(),
            where=where,
            hint=f"Spark says: {redact(str(error), end.secrets).splitlines()[0]}",
        ) from None


def check_brokers(source: TopicSource[Any], where: str) -> None:
    """Refuse a source none of whose brokers answers in ten seconds: Spark would ask for three minutes."""
    reasons: list[str] = []
    for server in source.options["kafka.bootstrap.servers"].split(","):
        reason = _no_answer(server.strip(), source.options.get("kafka.security.protocol", "PLAINTEXT"))
        if reason is None:
            return
        reasons.append(f"{server.strip()}: {reason}")
    raise SourceError(
        "no broker of Kafka answers",
        given=f"{source.describe()} ({'; '.join(reasons)})",
        expected="at least one of the servers, reachable from this machine",
        where=where,
        hint="look whether the brokers run, at the port, and whether its listener is encrypted "
        "(options={'kafka.security.protocol': ...})",
    )


def _topics_of(sources: Iterable[Step]) -> Iterator[tuple[Step, TopicSource[Any]]]:
    """Returns the sources that Spark's connector reads."""
    for step in sources:
        source = step.node.reads
        if isinstance(source, TopicSource) and source.engine_connector:
            yield step, source


def _no_answer(server: str, protocol: str) -> str | None:
    """Returns why a server does not answer; None: it does, or only Spark can tell."""
    address = _SERVER.fullmatch(server)
    if address is None:
        return None
    try:
        with socket.create_connection((address[1], int(address[2])), _ANSWER_SECONDS) as connection:
            # Over an encrypted connection Spark asks.
            if protocol.upper().endswith("PLAINTEXT"):
                connection.sendall(_ASKS_VERSIONS)
                if not connection.recv(1):
                    return "it hangs up"
    except OSError as error:
        return error.strerror or f"{error}"
    return None


def kafka_failure(failure: WindrowError, sources: Iterable[Step]) -> WindrowError | None:
    """Returns the error for the topics of Kafka sources, if Spark stopped the pipeline because of them."""
    topics = list(_topics_of(sources))
    if not topics or type(failure) is not EngineError or failure.details is None:
        return None
    gone = _GONE.search(failure.details)
    partitions = set() if gone is None else set(_PARTITION.findall(gone[1]))
    named = [each for each in topics if isinstance(each[1].topics, tuple) and partitions & {*each[1].topics}] or topics
    where = named[0][0].where if len(named) == 1 else failure.where
    if gone is not None:
        refusal: WindrowError = SourceError(
            "a topic no longer has records that were not read yet",
            given=gone[1].rstrip(". "),
            expected="topics that keep their records until they are read, and are not deleted and made again",
            where=where,
            hint="to lose these records and go on with those that are there, run once with "
            "options={'failOnDataLoss': 'false'} of the source",
        )
    elif _NO_TOPIC in failure.details:
        refusal = SourceError(
            "a topic of a source is not there",
            given="; ".join(source.describe() for _, source in named),
            expected="topics that were made before the run",
            where=where,
            hint="make it, or correct its name; a compiled pattern as topics takes those that come later, too",
        )
    else:
        return None
    refusal.__cause__, refusal.details = failure.__cause__, failure.details
    return refusal

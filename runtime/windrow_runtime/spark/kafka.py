"""Checks whether a session has Spark's connector for Kafka, and translates its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from windrow.addresses.redaction import redact
from windrow.errors import SourceError, UnsupportedOperationError, WindrowError
from windrow.kafka import KafkaSink, TopicSource
from windrow.plan import SourceNode, Step
from windrow_runtime.spark.session import lacks_jar

# Any in this module: elements of every type, and pyarrow has no types.

_JAR = "spark-sql-kafka-0-10"
# Spark 4.3 has an error condition for a missing connector, earlier versions the one for all sources or none. If the
# connector lacks a library that it needs, Java names the missing class.
_NOT_THERE = re.compile(
    r"KAFKA_DATA_SOURCE_NOT_ENABLED|Failed to find (?:the )?data source: `?kafka|ClassNotFoundException: kafka"
    r"|(?:NoClassDefFoundError|ClassNotFoundException): org[./]apache[./](?:spark[./]sql[./])?kafka"
)


def check_jar(steps: Iterable[Step]) -> None:
    """Refuse Kafka sources and sinks before a session is started, if it is known that it will lack the connector."""
    for step in steps:
        end = step.node.source if isinstance(step.node, SourceNode) else getattr(step.node, "sink", None)
        if not isinstance(end, TopicSource | KafkaSink) or (isinstance(end, TopicSource) and not end.engine_connector):
            continue
        if lacks_jar(_JAR):
            raise _connector_missing(end, step.where, pyspark.__version__)


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

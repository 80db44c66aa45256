"""A broker, and a process with a Spark session that has Spark's own connector."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.kafka.child import SparkChild, spark_child
from tests.kafka.topics import Topics
from tests.services.errors import NoServiceError
from tests.services.kafka import CONNECTOR


@pytest.fixture(scope="session")
def run_name() -> str:
    """What tells the topics of this run from those of others at the same broker."""
    return uuid4().hex[:6]


@pytest.fixture(scope="session")
def client() -> None:
    """Whether tests can write and read topics beside Spark."""
    if importlib.util.find_spec("confluent_kafka") is None:
        pytest.skip("no client of Kafka: pip install confluent-kafka")


@pytest.fixture
def topics(kafka: str, run_name: str, request: pytest.FixtureRequest) -> Topics:
    """The topics of a test."""
    return Topics(kafka, re.sub(r"\W", "-", f"{request.path.stem}-{request.node.name}-{run_name}"))


@pytest.fixture(scope="session")
def spark_with_connector(client: None, kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkChild]:
    """Stands for the session; a test that takes it runs in the process that has one, and gets it there."""
    try:
        jars = CONNECTOR.fetch()
    except NoServiceError as error:
        pytest.skip(str(error))
    with spark_child(tmp_path_factory.mktemp("kafka") / "warehouse", jars) as child:
        yield child


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    child = pyfuncitem.funcargs.get("spark_with_connector")
    if not isinstance(child, SparkChild):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name != "spark_with_connector"}
    module = ".".join(Path(pyfuncitem.path).relative_to(pyfuncitem.config.rootpath).with_suffix("").parts)
    failure = child.failure_of(module, pyfuncitem.function.__name__, arguments)
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True

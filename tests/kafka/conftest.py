"""The topics of a test, at a broker."""

from __future__ import annotations

import importlib.util
import re
from uuid import uuid4

import pytest

from tests.kafka.topics import Topics
from windrow_kafka import faults


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
def soon_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that are not there are looked for a moment, and not for seconds."""
    rows = tuple(row._replace(seconds=0.2) if row.words is faults.ABSENT else row for row in faults._TABLE)
    monkeypatch.setattr(faults, "_TABLE", rows)


@pytest.fixture
def topics(kafka: str, run_name: str, request: pytest.FixtureRequest) -> Topics:
    """The topics of a test."""
    return Topics(kafka, re.sub(r"\W", "-", f"{request.path.stem}-{request.node.name}-{run_name}"))

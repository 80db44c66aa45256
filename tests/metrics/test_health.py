"""How a running pipeline is, from its start to its end, and what probes are answered."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.files import put
from windrow import Pipeline, from_source
from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource
from windrow_runtime.metrics.health import Health
from windrow_runtime.metrics.reports import Backlog
from windrow_runtime.spark import SparkRunner
from windrow_tools.command.health import check_port, probed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Reading(NamedTuple):
    sensor: str
    at: int


def checked(reading: Reading) -> Reading:
    if reading.at < 0:
        raise ValueError(f"a secret of {reading.sensor}")
    return reading


def pipeline(folder: Path) -> Pipeline:
    readings = from_source(JsonFileSource(folder, Reading, files_in_order="name"))
    last = readings.map(checked).key_by(lambda r: r.sensor).reduce(lambda a, b: b)
    return Pipeline("readings", last.sink_to(CollectSink()))


def test_health_follows_a_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline(tmp_path / "in"))
    running.process_available()
    idle = running.health()
    assert (idle.state, idle.is_alive, idle.is_ready) == ("running", True, True)
    first = -1 if idle.batch is None else idle.batch  # a keyed step may be asked whether timers are due
    put(tmp_path / "in", 1, [Reading("roof", 7)])
    running.process_available()
    busy = running.health()
    assert (busy.state, busy.is_ready, busy.last_error) == ("running", True, None)
    assert busy.batch is not None
    assert busy.batch > first
    assert busy.batch_age_seconds is not None
    assert 0 <= busy.batch_age_seconds < 60
    assert busy.backlog == {"readings.1.source": Backlog(0, "files")}
    put(tmp_path / "in", 2, [Reading("roof", -1)])
    with pytest.raises(UserFunctionError):
        running.process_available()
    failed = running.health()
    assert (failed.state, failed.is_alive, failed.is_ready, failed.batch) == ("failed", False, False, busy.batch)
    assert isinstance(failed.last_error, UserFunctionError)


def test_a_failure_is_known_without_a_call_that_waits(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 1, [Reading("roof", -1)])
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline(tmp_path / "in"))
    # Spark's own thread fails, and a health server alone looks.
    deadline = time.monotonic() + 60
    while running.health().is_alive and time.monotonic() < deadline:
        time.sleep(0.05)
    health = running.health()
    assert (health.state, type(health.last_error)) == ("failed", UserFunctionError)


def test_a_stopped_run_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 1, [Reading("roof", 1)])
    running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint", clock=lambda: 90_000).start(
        pipeline(tmp_path / "in")
    )
    running.process_available()
    running.stop()
    health = running.health()
    assert (health.state, health.is_alive, health.is_ready, health.last_error) == ("ended", False, False, None)
    assert health.batch_age_seconds == 0  # by the runner's clock


def answer(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_probes_are_answered_by_state() -> None:
    with probed(0) as server:
        port = server.server_port
        assert answer(port, "/livez") == (200, {"state": "starting"})
        assert answer(port, "/readyz")[0] == 503
        server.ask = lambda: Health("p", "running", is_ready=False)
        assert (answer(port, "/livez")[0], answer(port, "/readyz")[0]) == (200, 503)
        server.ask = lambda: Health("p", "running", True, 7, 1.5, 20, {"p.1": Backlog(3, "offsets")})
        assert answer(port, "/readyz") == (
            200,
            {
                "pipeline": "p",
                "state": "running",
                "ready": True,
                "batch": 7,
                "batch_age_seconds": 1.5,
                "lag_ms": 20,
                "backlog": {"p.1": {"waiting": 3, "unit": "offsets"}},
                "last_error": None,
            },
        )
        failure = UserFunctionError("a secret")
        server.ask = lambda: Health("p", "failed", is_ready=False, last_error=failure)
        assert (answer(port, "/livez")[0], answer(port, "/readyz")[0]) == (503, 503)
        assert answer(port, "/livez")[1]["last_error"] == "UserFunctionError"
        assert "secret" not in str(answer(port, "/livez"))
        assert answer(port, "/")[0] == 404
        server.ask = lambda: Health("p", "running", is_ready=False)
        assert (answer(port, "/livez?verbose=1")[0], answer(port, "/readyz?verbose=1")[0]) == (200, 503)
        head = urllib.request.Request(f"http://127.0.0.1:{port}/livez", method="HEAD")
        with urllib.request.urlopen(head, timeout=10) as response:
            assert (response.status, response.read()) == (200, b"")
        with pytest.raises(InvalidArgumentError, match="probes cannot be answered on this port"):
            check_port(port)
    check_port(port)

"""A real Prometheus scrapes a run: alarms are quiet while it runs, and fire when it has failed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry, start_http_server

from tests.metrics.prometheus import SERIES
from tests.metrics.test_page import DASHBOARD, RULES, expressions
from tests.services.server import free_ports
from tests.support.files import put
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.errors import UserFunctionError
from windrow.functions import MapFunction, ProcessWindowContext, ProcessWindowFunction, RuntimeContext
from windrow.sinks import CollectSink
from windrow.sources import JsonFileSource
from windrow.windows import TimeWindow, TumblingEventTimeWindows
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is not installed (apt-get install prometheus)"
)


class Reading(NamedTuple):
    sensor: str
    at: int


class Checked(MapFunction[Reading, Reading]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.checked = runtime_context.metrics.counter("checked")
        self.newest = runtime_context.metrics.gauge("newest")
        self.times = runtime_context.metrics.histogram("times", [20_000])

    def map(self, value: Reading) -> Reading:
        if value.at < 0:
            raise ValueError("no such time")
        self.checked.inc()
        self.newest.set(value.at)
        self.times.record(value.at)
        return value


class Sizes(ProcessWindowFunction[Reading, int, str, TimeWindow]):
    """Clears state, which keeps its windows on objects, whose timers are counted."""

    def process(
        self, key: str, context: ProcessWindowContext[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[int]:
        return [len(list(elements))]

    def clear(self, context: ProcessWindowContext[TimeWindow]) -> None:
        pass


def pipeline(folder: Path) -> Pipeline:
    readings = (
        from_source(JsonFileSource(folder, Reading, files_in_order="name"))
        .map(Checked())
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=1)), timestamp=lambda r: r.at
        )
    )
    sizes = readings.key_by(lambda r: r.sensor).window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    return Pipeline("readings", sizes.process(Sizes()).sink_to(CollectSink()))


class Prometheus:
    """A server that scrapes this process twice a second."""

    def __init__(self, port: int) -> None:
        self._port = port

    # Any: JSON.
    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask(f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
        return found

    def alerts(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def answers(self) -> bool:
        try:
            return bool(self.query("up == 1"))
        except OSError:
            return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextmanager
def scraped(folder: Path) -> Iterator[Prometheus]:
    """Serves the metrics of this process, and starts a Prometheus for which minutes are seconds."""
    exporter_port, port = free_ports(2)
    rules = re.sub(r"\b(\d+)m\b", r"\1s", RULES.read_text()).replace("> 600", "> 10")
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 500ms, scrape_timeout: 400ms, evaluation_interval: 500ms}}
rule_files: [rules.yml]
scrape_configs:
  - {{job_name: windrow, static_configs: [{{targets: ["127.0.0.1:{exporter_port}"]}}]}}
"""
    )
    registry = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=registry)], shutdown_on_exit=False)
    exporter, _ = start_http_server(exporter_port, "127.0.0.1", registry)
    arguments = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = subprocess.Popen(["prometheus", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_internal, "_METER_PROVIDER", provider)
            prometheus = Prometheus(port)
            wait_for(prometheus.answers, "Prometheus does not scrape")
            yield prometheus
    finally:
        process.terminate()
        process.wait(timeout=30)
        exporter.shutdown()
        exporter.server_close()
        provider.shutdown()


def shown(prometheus: Prometheus) -> dict[str, list[Any]]:
    """What each expression of the dashboard gives."""
    texts = expressions(json.loads(DASHBOARD.read_text()))
    filled = {text: text.replace("$pipeline", ".+").replace("$__rate_interval", "20s") for text in texts}
    return {text: prometheus.query(expression) for text, expression in filled.items()}


def test_a_run_is_scraped_and_its_failure_fires(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "prometheus").mkdir()
    with scraped(tmp_path / "prometheus") as prometheus:
        put(tmp_path / "in", 0, [Reading("roof", 1_000), Reading("wall", 2_000)])
        running = SparkRunner(spark, checkpoint=tmp_path / "checkpoint").start(pipeline(tmp_path / "in"))
        for number in range(1, 5):
            running.process_available()
            put(tmp_path / "in", number, [Reading("roof", number * 7_000), Reading("wall", number * 7_000)])
        running.process_available()
        wait_for(lambda: bool(prometheus.query("windrow_batch_number > 1")), "no batch is known")
        time.sleep(3)  # as long as an alarm waits that would fire
        assert prometheus.alerts() == set()
        names = {each for each in prometheus.ask("label/__name__/values") if each.startswith("windrow_")}
        assert names - {name.replace("_total", "_created") for name in names} <= SERIES
        missing = {name for name in SERIES - names if "dropped" not in name and "failures" not in name}
        assert missing == set()
        empty = {text for text, found in shown(prometheus).items() if not found}
        assert {text for text in empty if "dropped" not in text and "failures" not in text} == set()
        put(tmp_path / "in", 9, [Reading("roof", -1)])
        with pytest.raises(UserFunctionError):
            running.process_available()
        assert not running.is_active  # as a program sees that waits for the end
        wait_for(lambda: {"WindrowStopped", "WindrowFailed"} <= prometheus.alerts(), "no alarm")
        assert prometheus.alerts() == {"WindrowStopped", "WindrowFailed"}
        assert prometheus.query('windrow_run_failures_total{error_type="UserFunctionError"}')

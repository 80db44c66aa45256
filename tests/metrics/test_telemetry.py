"""What OpenTelemetry gets in odd cases: a broken SDK, two runs of one name, odd names and boundaries of metrics."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider

from tests.metrics.collected import collecting
from windrow import Pipeline, from_collection
from windrow.errors import UserFunctionError
from windrow.functions import MapFunction, RuntimeContext
from windrow.kafka import KafkaSink
from windrow.plan import Pipeline as Plan
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.metrics.telemetry import PlainRun, Telemetry
from windrow_runtime.operators.outcome import secrets_of


class Broken(SpanProcessor):
    def on_start(self, span: Span, parent_context: object = None) -> None:
        raise RuntimeError("no spans today")


class Sized(MapFunction[float, float]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.sizes = runtime_context.metrics.histogram("half \ud800", [1_000_000, 1_000_000.5, 1_000_001])

    def map(self, value: float) -> float:
        self.sizes.record(value)
        return value


def failing(number: int) -> int:
    raise ValueError("no number")


def numbers(sink: CollectSink[int]) -> Plan:
    return Pipeline("numbers", from_collection([1, 2]).sink_to(sink))


def test_a_broken_sdk_stops_no_run(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    sink = CollectSink[int]()
    with collecting() as collected:
        tracers = TracerProvider()
        tracers.add_span_processor(Broken())
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
        assert LocalRunner().run(numbers(sink)).collected(sink) == [1, 2]
        assert collected.value("windrow.step.records.in", step="numbers.1.source") == 2
        failed = Pipeline("failed", from_collection([1]).map(failing).sink_to(CollectSink[int]()))
        with pytest.raises(UserFunctionError):
            LocalRunner().run(failed)
        assert collected.value("windrow.run.failures", pipeline="failed") == 1
    assert set(caplog.messages) == {
        f"metrics or spans of pipeline {name} are missing, which goes on" for name in ("numbers", "failed")
    }


def test_elements_that_a_policy_drops_are_counted_by_their_step() -> None:
    sink = CollectSink[int]()
    dropping = from_collection(["1", "two", "3", "four"]).map(int, on_error="drop", name="parse")
    with collecting() as collected:
        LocalRunner().run(Pipeline("numbers", dropping.key_by(lambda n: n).reduce(max).sink_to(sink)))
        assert collected.by("windrow.step.records.dropped", "step", reason="failed_records_dropped") == {
            "numbers.2.parse": 2
        }
        assert collected.by("windrow.step.user.counter", "name") == {}


def test_a_run_is_active_when_another_of_its_name_has_ended() -> None:
    runs = [Telemetry("numbers", "local", PlainRun(active=True)) for _ in range(2)]
    with collecting() as collected:
        for each in runs:
            each.begin()
        for each, still_active in zip(reversed(runs), (1, 0), strict=True):
            each.end()
            assert collected.by("windrow.run.active", "engine", pipeline="numbers") == {"local": still_active}


def leaking(number: int) -> int:
    raise ValueError("hunter22 is wrong, and so is postgresql://ann:swordfish@db.example/weather")


def test_spans_show_no_secret_of_an_error() -> None:
    topics = KafkaSink[int]("a:9092", "t", options={"sasl.password": "hunter22"})
    steps = Pipeline("topics", from_collection([1]).sink_to(topics)).steps
    with collecting() as collected:
        telemetry = Telemetry("topics", "local", PlainRun(active=True), secrets_of(steps))
        try:
            leaking(1)
        except ValueError as error:
            telemetry.end(error)
        (span,) = collected.spans()
    (event,) = span.events
    shown = str((span.status.description, dict(event.attributes or {})))
    assert "***** is wrong" in shown
    assert "in leaking" in shown
    assert "hunter22" not in shown
    assert "swordfish" not in shown


def test_boundaries_that_are_close_have_texts_of_their_own() -> None:
    values = [999_999.0, 1_000_000.4, 1_000_000.4, 1_000_002.0]
    with collecting() as collected:
        LocalRunner().run(Pipeline("sizes", from_collection(values).map(Sized()).sink_to(CollectSink[float]())))
        buckets = collected.by("windrow.step.user.histogram.bucket", "le", name="half ?")
    assert buckets == {"1e+06": 1, "1000000.5": 3, "1000001.0": 3, "+Inf": 4}

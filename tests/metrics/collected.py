"""An SDK of OpenTelemetry for one test, and what it has collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from opentelemetry import trace
from opentelemetry.metrics import _internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Collected:
    """What the SDK has collected so far."""

    reader: InMemoryMetricReader
    exporter: InMemorySpanExporter

    def metrics(self) -> dict[str, dict[Labels, float]]:
        """The newest value of each metric, by name and attributes; of a histogram the number of values."""
        data = self.reader.get_metrics_data()
        values: dict[str, dict[Labels, float]] = {}
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = values.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        labels = frozenset((name, str(value)) for name, value in (point.attributes or {}).items())
                        assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                        points[labels] = point.count if isinstance(point, HistogramDataPoint) else point.value
        return values

    def value(self, metric: str, /, **labels: str) -> float:
        """The sum of a metric over all attributes but these."""
        wanted = labels.items()
        return sum(value for each, value in self.metrics().get(metric, {}).items() if wanted <= dict(each).items())

    def by(self, metric: str, label: str, /, **labels: str) -> Mapping[str, float]:
        """The values of a metric by one attribute."""
        wanted = labels.items()
        points = [(dict(each), value) for each, value in self.metrics().get(metric, {}).items()]
        return {each[label]: value for each, value in points if wanted <= each.items()}

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


@contextmanager
def collecting() -> Iterator[Collected]:
    """Sets up an SDK until the end of the block; OpenTelemetry itself lets nobody take one away again."""
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_internal, "_METER_PROVIDER", MeterProvider([reader]))
        patch.setattr(trace, "_TRACER_PROVIDER", tracers)
        yield Collected(reader, exporter)

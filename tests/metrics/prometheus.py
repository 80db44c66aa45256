"""The names of windrow's metrics in Prometheus, by the rules of OpenTelemetry's exporter."""

from __future__ import annotations

from typing import Final

from windrow_runtime.metrics.instruments import ALL, Instrument, Kind

_UNITS: Final = {"s": "_seconds", "By": "_bytes"}


def series_of(metric: Instrument) -> list[str]:
    """The names of the series of a metric; tests/metrics/test_scrape.py compares them with those of a real exporter."""
    name = metric.name.replace(".", "_") + _UNITS.get(metric.unit, "")
    if metric.kind is Kind.COUNTER:
        return [f"{name}_total"]
    return [f"{name}_{each}" for each in ("bucket", "count", "sum")] if metric.kind is Kind.HISTOGRAM else [name]


SERIES: Final = {name for metric in ALL for name in series_of(metric)}

"""Hands reports on batches to OpenTelemetry, as metrics and spans, where the program has set up its SDK.

The API alone, without an SDK, does nothing, and neither does this module then: it looks before each batch, so that a
program may set up the SDK when it likes.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from windrow.addresses.redaction import redact
from windrow_runtime.metrics import instruments as listed
from windrow_runtime.metrics.instruments import Instrument, Kind
from windrow_runtime.metrics.reports import Backlog, PipelineProgress
from windrow_runtime.metrics.step_metrics import StepMetrics, is_loss

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

    from windrow.functions import Distribution

# Any in this module: OpenTelemetry's instruments have no common method.

_LOG: Final = logging.getLogger("windrow")
_SCOPE: Final = "windrow"
_BATCH: Final = "windrow.batch"
_API: Final = ("opentelemetry.metrics", "opentelemetry.trace")

_Attributes: TypeAlias = "dict[str, str]"


class Run(Protocol):
    """What exporters may ask of a run between its batches, in any thread."""

    def is_active(self) -> bool:
        """Returns whether the run goes on."""

    def backlog(self) -> Mapping[str, Backlog]:
        """Returns what waits in the sources, by step id; sources that do not say it are left out."""

    def parts_before(self, batch: int) -> Mapping[str, float]:
        """Returns how many seconds those parts of the batch before took that its report does not have."""


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A run that says nothing of its sources, or has ended."""

    active: bool

    def is_active(self) -> bool:
        return self.active

    def backlog(self) -> Mapping[str, Backlog]:
        return {}

    def parts_before(self, batch: int) -> Mapping[str, float]:
        return {}


_ENDED: Final = PlainRun(active=False)


def _provider(module: str) -> Any | None:
    """Returns the provider of meters or of tracers; None without an SDK, since those of the API do nothing."""
    if not _is_installed():
        return None
    if module == "opentelemetry.metrics":
        from opentelemetry import metrics

        provider: Any = metrics.get_meter_provider()
    else:
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
    return None if type(provider).__module__.startswith(_API) else provider


@cache
def _is_installed() -> bool:
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.trace") is not None


class _Instruments:
    """The instruments of a provider, made at their first use, and what observed ones are asked for."""

    def __init__(self, provider: MeterProvider) -> None:
        self.provider = provider
        self._meter = provider.get_meter(_SCOPE)
        self._made: dict[str, Any] = {}
        self.runs: dict[tuple[str, str], list[Run]] = {}  # those that go on, of each pipeline and engine
        self._observe(listed.RUN_ACTIVE, lambda run: [(int(run.is_active()), {})])
        self._observe(listed.BACKLOG, _backlogs)

    def of(self, instrument: Instrument) -> Any:
        """Returns an instrument of the meter."""
        meter_instrument = self._made.get(instrument.name)
        if meter_instrument is None:
            meter_instrument = self._made[instrument.name] = self._make(instrument)
        return meter_instrument

    def _make(self, instrument: Instrument) -> Any:
        name, unit, description = instrument.name, instrument.unit, instrument.description
        match instrument.kind:
            case Kind.COUNTER:
                return self._meter.create_counter(name, unit, description)
            case Kind.UP_DOWN_COUNTER:
                return self._meter.create_up_down_counter(name, unit, description)
            case Kind.GAUGE:
                return self._meter.create_gauge(name, unit, description)
            case _:
                return self._meter.create_histogram(
                    name, unit, description, explicit_bucket_boundaries_advisory=listed.BOUNDARIES
                )

    def _observe(self, instrument: Instrument, ask: Callable[[Run], Iterable[tuple[int, _Attributes]]]) -> None:
        from opentelemetry.metrics import Observation

        def observations(options: CallbackOptions) -> list[Observation]:
            return [
                Observation(value, {"pipeline": pipeline, "engine": engine, **attributes})
                for (pipeline, engine), runs in [*self.runs.items()]
                for value, attributes in ask(next(reversed(runs), _ENDED))
            ]

        name, unit, description = instrument.name, instrument.unit, instrument.description
        self._meter.create_observable_gauge(name, [observations], unit, description)


def _backlogs(run: Run) -> Iterable[tuple[int, _Attributes]]:
    return [(waiting, {"step": step, "unit": unit}) for step, (waiting, unit) in run.backlog().items()]


_INSTRUMENTS: Final[list[_Instruments]] = []
"""Those of the provider of this process, of which there is one at most; instruments cannot be made twice."""

_LOCK: Final = Lock()


def _instruments() -> _Instruments | None:
    """Returns the instruments of the present provider; None: there is no SDK."""
    provider = _provider("opentelemetry.metrics")
    if provider is None:
        return None
    with _LOCK:
        if not _INSTRUMENTS or _INSTRUMENTS[0].provider is not provider:
            _INSTRUMENTS[:] = [_Instruments(provider)]
        return _INSTRUMENTS[0]


@dataclass(slots=True)
class Telemetry:
    """Hands the reports on one run's batches to OpenTelemetry.

    No result depends on them: an error of the SDK, or of what a program has put into it, is logged.
    """

    pipeline: str
    engine: str  # "local" or "spark"
    run: Run
    secrets: Sequence[str] = ()  # what no span shows, a long one before one that it holds
    _before: StepMetrics = field(default_factory=StepMetrics)
    _is_registered: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether an SDK takes metrics or spans."""
        return any(_provider(module) is not None for module in _API)

    @property
    def _attributes(self) -> _Attributes:
        return {"pipeline": self.pipeline, "engine": self.engine}

    def begin(self) -> None:
        """Makes exporters ask the run what is known between its batches; later calls do nothing."""
        with self._errors_logged():
            self._register()

    def _register(self) -> None:
        instruments = None if self._is_registered else _instruments()
        if instruments is not None:
            with _LOCK:
                instruments.runs.setdefault((self.pipeline, self.engine), []).append(self.run)
            self._is_registered = True

    def end(self, error: BaseException | None = None) -> None:
        """Tells the end of the run, and its failure."""
        with self._errors_logged():
            self._unregister(error)
        if error is not None:
            with self._errors_logged():
                self._trace_failure(error)

    def _unregister(self, error: BaseException | None) -> None:
        instruments = _instruments()
        if instruments is None:
            return
        with _LOCK:
            runs = instruments.runs.get((self.pipeline, self.engine), [])
            runs[:] = [run for run in runs if run is not self.run]
        if error is not None:
            failure = {**self._attributes, "error.type": type(error).__name__}
            instruments.of(listed.RUN_FAILURES).add(1, failure)

    def report(self, progress: PipelineProgress, metrics: Callable[[], StepMetrics]) -> None:
        """Hands on the report on a batch; ``metrics`` returns those of all functions since the start of the run.

        Errors, such as those of an SDK, are logged: no result depends on metrics.
        """
        self.begin()
        with self._errors_logged():
            instruments = _instruments()
            if instruments is not None:
                self._measure_parts(instruments, self.run.parts_before(progress.batch))
                self._measure(instruments, progress)
                self._measure_users(instruments, metrics(), progress.steps)
        with self._errors_logged():
            self._trace(progress)

    @contextmanager
    def _errors_logged(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            _LOG.exception("metrics or spans of pipeline %s are missing, which goes on", self.pipeline)

    def _measure_parts(self, instruments: _Instruments, parts: Mapping[str, float]) -> None:
        for part, seconds in parts.items():
            instruments.of(listed.PART_DURATION).record(seconds, {**self._attributes, "part": part})

    def _measure(self, instruments: _Instruments, progress: PipelineProgress) -> None:
        common = self._attributes
        instruments.of(listed.BATCH_NUMBER).set(progress.batch, common)
        instruments.of(listed.BATCH_ENDED).set(time.time(), common)
        instruments.of(listed.BATCH_DURATION).record(progress.duration_ms / 1000, common)
        self._measure_parts(instruments, {part: ms / 1000 for part, ms in progress.parts_ms.items()})
        for identifier, step in progress.steps.items():
            of_step = {**common, "step": identifier}
            instruments.of(listed.RECORDS_IN).add(step.records_in, of_step)
            instruments.of(listed.RECORDS_OUT).add(step.records_out, of_step)
            instruments.of(listed.LATE).add(step.late, of_step)
            instruments.of(listed.MALFORMED).add(step.malformed, of_step)
            for reason, count in step.dropped.items():
                instruments.of(listed.DROPPED).add(count, {**of_step, "reason": reason})
            for gauge in listed.STEP_GAUGES:
                value = gauge.value(step)
                if value is not None:
                    instruments.of(gauge.instrument).set(value, of_step)

    def _measure_users(self, instruments: _Instruments, metrics: StepMetrics, reported: Container[str]) -> None:
        """Adds what has come since the last report, but the losses of steps that have a report of their own."""
        before, self._before = self._before, metrics
        for step, counters in metrics.counters.items():
            for name, total in counters.items():
                count = total - before.counters.get(step, {}).get(name, 0)
                if count > 0 and not (step in reported and (name == "records_malformed" or is_loss(name))):
                    instruments.of(listed.USER_COUNTER).add(count, self._named(step, name))
        for step, gauges in metrics.gauges.items():
            for name, value in gauges.items():
                instruments.of(listed.USER_GAUGE).set(value, self._named(step, name))
        for step, histograms in metrics.histograms.items():
            for name, recorded in histograms.items():
                earlier = before.histograms.get(step, {}).get(name)
                self._measure_values(instruments, self._named(step, name), recorded, earlier)

    def _named(self, step: str, name: str) -> _Attributes:
        # Exporters encode the names: half of a surrogate pair would fail each of their reports.
        encodable = name.encode("utf-8", "replace").decode()
        return {**self._attributes, "step": step, "name": encodable}

    def _measure_values(
        self, instruments: _Instruments, named: _Attributes, recorded: Distribution, known: Distribution | None
    ) -> None:
        if known is None or known.boundaries != recorded.boundaries or known.count > recorded.count:
            before, total = [0] * len(recorded.counts), 0.0
        else:
            before, total = known.counts, known.total
        count = 0
        for boundary, now, then in zip((*recorded.boundaries, None), recorded.counts, before, strict=True):
            count += now - then
            le = "+Inf" if boundary is None else _boundary_text(boundary)
            instruments.of(listed.USER_BUCKET).add(count, {**named, "le": le})
        instruments.of(listed.USER_COUNT).add(count, named)
        instruments.of(listed.USER_SUM).add(recorded.total - total, named)

    def _trace(self, progress: PipelineProgress) -> None:
        """Makes a span of the batch that has ended just now, with a span of each part."""
        provider = _provider("opentelemetry.trace")
        if provider is None:
            return
        from opentelemetry import trace
        from opentelemetry.context import Context

        ended = time.time_ns()
        tracer = provider.get_tracer(_SCOPE)
        begun = ended - progress.duration_ms * 1_000_000
        attributes = {**self._attributes, "batch": progress.batch}
        span = tracer.start_span(_BATCH, Context(), start_time=begun, attributes=attributes)
        context = trace.set_span_in_context(span)
        for part, milliseconds in progress.parts_ms.items():
            end = begun + milliseconds * 1_000_000
            tracer.start_span(f"{_BATCH}.{part}", context, start_time=begun).end(end)
            begun = end
        span.end(ended)

    def _trace_failure(self, error: BaseException) -> None:
        """Makes a span of the batch that failed, without a length: nobody knows when it began."""
        provider = _provider("opentelemetry.trace")
        if provider is not None:
            from opentelemetry.context import Context
            from opentelemetry.trace import StatusCode

            span = provider.get_tracer(_SCOPE).start_span(_BATCH, Context(), attributes=self._attributes)
            message = redact(str(error), self.secrets)
            stacktrace = redact("".join(traceback.format_exception(error)), self.secrets)
            span.record_exception(error, {"exception.message": message, "exception.stacktrace": stacktrace})
            span.set_status(StatusCode.ERROR, message)
            span.end()


def _boundary_text(boundary: float) -> str:
    """Returns a boundary as Prometheus writes it; two of a histogram have two texts."""
    text = f"{boundary:g}"
    return text if float(text) == boundary else repr(boundary)

"""Tells catalogs of lineage what runs read and write, by events of OpenLineage.

The events come from the plan, so that they have what Spark's own agent does not see: what workers open by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Final

from windrow.addresses.datasets import Dataset
from windrow.addresses.redaction import redact
from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError, WindrowError
from windrow.plan import Pipeline, Step
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import Kind, RecordField
from windrow_runtime.operators.outcome import secrets_of

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent, RunState
    from openlineage.client.facet_v2 import JobFacet, RunFacet
    from openlineage.client.generated.base import DatasetFacet
    from openlineage.client.generated.schema_dataset import SchemaDatasetFacetFields

__all__ = ["OpenLineage"]

_LOG: Final = logging.getLogger("windrow")
_PATIENCE_SECONDS: Final = 10.0
_PRODUCER: Final = "https://github.com/windrow-streams/windrow"


class OpenLineage:
    """Sends events of OpenLineage about the runs of a runner, which takes it as ``lineage``.

    A run sends an event when it starts, and one when it has ended: ``COMPLETE``, also of a run that was stopped;
    ``FAIL`` with the error; or ``ABORT`` after an interruption. They have the datasets that its sources read and its
    sinks write, with the fields of their elements, and go out one after the other beside the run, which waits for them
    at its end, for ten seconds at most. An event that cannot be sent is logged, and the run goes on. Needs the extra
    ``lineage``.

    Args:
        client: The client; by default one that takes its settings from the environment, such as ``OPENLINEAGE_URL``.
        namespace: The namespace of the job; the name of the job is that of the pipeline.

    Raises:
        UnsupportedOperationError: If ``openlineage-python`` is not installed.
    """

    def __init__(self, client: OpenLineageClient | None = None, *, namespace: str = "windrow") -> None:
        try:
            from openlineage.client import OpenLineageClient
        except ImportError as error:
            raise UnsupportedOperationError(
                "openlineage-python is not installed", expected="the package", hint=install_hint("lineage")
            ) from error
        self.client = OpenLineageClient() if client is None else client
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"OpenLineage(namespace={self.namespace!r})"


class RunLineage:
    """Sends the events of one run; without a client it does nothing."""

    def __init__(self, lineage: OpenLineage | None, pipeline: Pipeline, engine: str, *, streaming: bool) -> None:
        self._lineage = lineage
        self._pipeline = pipeline
        self._engine = engine
        self._streaming = streaming
        self._run = ""
        self._has_ended = False
        self._sending: Thread | None = None  # of the newest event

    def begin(self) -> None:
        """Tells that the run starts; later calls do nothing."""
        if self._lineage is not None and not self._run:
            from openlineage.client.event_v2 import RunState
            from openlineage.client.uuid import generate_new_uuid

            self._run = str(generate_new_uuid())
            self._send(RunState.START)

    def end(self, error: BaseException | None = None) -> None:
        """Tells how the run has ended, if it had begun; later calls do nothing."""
        if not self._run or self._has_ended:
            return
        from openlineage.client.event_v2 import RunState

        self._has_ended = True
        if error is None:
            self._send(RunState.COMPLETE)
        else:
            self._send(RunState.FAIL if isinstance(error, Exception) else RunState.ABORT, error)
        if self._sending is not None:
            self._sending.join(_PATIENCE_SECONDS)
            if self._sending.is_alive():
                _LOG.warning("events of lineage of pipeline %s may be lost: no answer so far", self._pipeline.name)

    @contextmanager
    def during_run(self) -> Iterator[None]:
        """Tells the beginning and the end of the run, which is the block."""
        self.begin()
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        self.end()

    def _send(self, state: RunState, error: BaseException | None = None) -> None:
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent

        assert self._lineage is not None, "there is a client where a run has begun"
        try:
            reads = [(step, step.node.reads) for step in self._pipeline.steps if step.node.reads is not None]
            writes = [(step, step.node.writes) for step in self._pipeline.steps if step.node.writes is not None]
            event = RunEvent(
                eventType=state,
                eventTime=datetime.now(UTC).isoformat(),
                producer=_PRODUCER,
                run=Run(self._run, self._run_facets(error)),
                job=Job(self._lineage.namespace, self._pipeline.name, self._job_facets()),
                inputs=[
                    InputDataset(*dataset, facets=_facets(step.node.element_type))
                    for step, source in reads
                    for dataset in _distinct(source.datasets)
                ],
                outputs=[
                    OutputDataset(*dataset, facets=_facets(sink.encoded_type(_arriving(self._pipeline, step))))
                    for step, sink in writes
                    for dataset in _distinct(sink.datasets)
                ],
            )
        except Exception:
            self._log_failure()
        else:
            # A client tries for half a minute to reach a catalog that does not answer.
            self._sending = Thread(target=self._emit, args=(event, self._sending), name="windrow lineage", daemon=True)
            self._sending.start()

    def _emit(self, event: RunEvent, before: Thread | None) -> None:
        """Sends an event behind the one before it."""
        assert self._lineage is not None, "there is a client where a run has begun"
        if before is not None:
            before.join()
        try:
            self._lineage.client.emit(event)
        except Exception:
            self._log_failure()

    def _log_failure(self) -> None:
        """Logs the error at hand. No result depends on the events, and a catalog may be away."""
        _LOG.exception("no event of lineage was sent for pipeline %s, which goes on", self._pipeline.name)

    def _run_facets(self, error: BaseException | None) -> dict[str, RunFacet]:
        from openlineage.client.facet_v2 import error_message_run, processing_engine_run

        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=str(import_module("windrow").__version__),  # which programs have imported
                name=f"windrow on {self._engine}",
            )
        }
        if error is not None:
            message = redact(str(error), secrets_of(self._pipeline.steps))
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=f"{type(error).__name__}: {message}", programmingLanguage="python"
            )
        return facets

    def _job_facets(self) -> dict[str, JobFacet]:
        from openlineage.client.facet_v2 import job_type_job

        kind = "STREAMING" if self._streaming else "BATCH"
        return {"jobType": job_type_job.JobTypeJobFacet(processingType=kind, integration="WINDROW", jobType="PIPELINE")}


def _distinct(datasets: Sequence[Dataset]) -> list[Dataset]:
    return list(dict.fromkeys(datasets))


def _arriving(pipeline: Pipeline, sink: Step) -> object | None:
    """Returns the type of the elements that come to a sink."""
    upstream = next(step for step in pipeline.steps if step.id == sink.inputs[0])
    return upstream.node.element_type


def _facets(element_type: object | None) -> dict[str, DatasetFacet]:
    """Returns the fields of elements, if their type is known and has columns."""
    from openlineage.client.facet_v2 import schema_dataset

    if element_type is None:
        return {}
    try:
        columns = record_type(element_type).columns
    except WindrowError:
        return {}
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=[*map(_field, columns)])}


def _field(column: RecordField) -> SchemaDatasetFacetFields:
    from openlineage.client.facet_v2 import schema_dataset

    parts = [_field(each) for each in column.type.columns] if column.type.kind is Kind.RECORD else []
    return schema_dataset.SchemaDatasetFacetFields(name=column.column, type=str(column.column_type), fields=parts)

"""Keeps the collected elements and the metrics of a query's batches for the runner."""

from __future__ import annotations

import secrets
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from windrow_runtime.metrics.reports import PipelineProgress
from windrow_runtime.metrics.step_metrics import StepMetrics
from windrow_runtime.operators.errors import errors_at
from windrow_runtime.outputs.whole_files import write_whole
from windrow_spark.checkpoint.stored_file import StoredFile, checkpoint_errors, file_numbers
from windrow_spark.storage.values import StateCodec

# Any in this module: elements of every type.

_WRITTEN: Final = ""
"""Stands for the name of a counter where elements are counted that a sink took; no counter has it."""

_REPORT: Final = "report-"
_REPORTS_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class _Counts:
    """The metrics of all batches by step and name; their size does not depend on how many batches there were.

    They are those of all batches ``before`` the newest one with any, the number of that batch, and its metrics.
    """

    before: StepMetrics = field(default_factory=StepMetrics)
    batch: int = -1
    newest: StepMetrics = field(default_factory=StepMetrics)

    def with_batch(self, batch: int, metrics: StepMetrics, written: Counter[str]) -> _Counts:
        """Returns these with a batch's metrics, which replace earlier ones of the batch; itself if unchanged."""
        counters = {step: {**metrics.counters.get(step, {}), _WRITTEN: count} for step, count in written.items()}
        newest = replace(metrics, counters={**metrics.counters, **counters})
        assert batch >= self.batch, f"batch {batch} is run again after batch {self.batch}"
        if not newest and (batch > self.batch or not self.newest):
            return self
        return _Counts(self.before if batch == self.batch else self.totals(), batch, newest)

    def totals(self) -> StepMetrics:
        return self.before.followed_by(self.newest)


class Results:
    """Keeps results by batch, so that a batch that runs again replaces its former results.

    Only the newest batch can run again: Spark begins none before it has committed the one before. This class keeps
    results in memory; :class:`SpooledResults` overrides all methods, and keeps them in files.
    """

    def __init__(self) -> None:
        self._collected: defaultdict[int, dict[int, list[Any]]] = defaultdict(dict)
        self._counts = _Counts()
        self._reports: tuple[PipelineProgress, ...] = ()

    def put(self, batch: int, collected: Mapping[int, list[Any]], metrics: StepMetrics, written: Counter[str]) -> None:
        """Keep the collected elements of a batch, by the number of the sink, its metrics, and what sinks took."""
        for number, values in collected.items():
            # A pipeline that runs for months has many batches with nothing to collect.
            if values:
                self._collected[number][batch] = values
            else:
                self._collected[number].pop(batch, None)
        self._counts = self._counts.with_batch(batch, metrics, written)

    def report(self, progress: PipelineProgress) -> None:
        """Keep the report on a batch, in place of an earlier one on it, and no more of the oldest."""
        reports = [report for report in self._reports if report.batch != progress.batch]
        self._reports = (*reports[-_REPORTS_KEPT + 1 :], progress)  # other threads read it

    def latest_report(self) -> PipelineProgress | None:
        """Returns the report on the newest batch; None: there was none."""
        return self._reports[-1] if self._reports else None

    def reports(self, after: int) -> list[PipelineProgress]:
        """Returns the reports on the newest batches with numbers above ``after``, in order."""
        return [report for report in self._reports if report.batch > after]

    def collected(self, number: int) -> list[Any]:
        """Returns the elements that were collected for the sink of a number."""
        return [value for _, values in sorted(self._collected[number].items()) for value in values]

    def metrics(self) -> StepMetrics:
        """Returns the metrics of all batches so far, by step and name."""
        totals = self._totals()
        named = {
            step: {name: n for name, n in counts.items() if name != _WRITTEN}
            for step, counts in totals.counters.items()
        }
        return replace(totals, counters={step: counts for step, counts in named.items() if counts})

    def written(self) -> dict[str, int]:
        """Returns how many elements each sink took, by step; sinks that took none are left out."""
        return {step: counts[_WRITTEN] for step, counts in self._totals().counters.items() if _WRITTEN in counts}

    def _totals(self) -> StepMetrics:
        return self._counts.totals()


class SpooledResults(Results):
    """Keeps results in files, for a query whose batches are written in a process of a Spark Connect server.

    There is one file for each batch in which a sink collected elements, and one for all counts. Collected elements are
    encoded as state is, so that reading a file runs no code, whoever wrote it. A file that cannot be read or written,
    or is damaged, raises a :class:`~windrow.errors.CheckpointError`. This process and the server see the folder. The
    codec refuses values of classes that the plan does not name.
    """

    def __init__(self, folder: Path, codec: StateCodec) -> None:
        self._parent = folder
        # Each run has a separate folder, since a process of the server may still work for an aborted run.
        self._folder = folder / secrets.token_hex(8)
        self._codec = codec

    def clear(self) -> None:
        """Delete the results of earlier runs."""
        shutil.rmtree(self._parent, ignore_errors=True)
        with checkpoint_errors(self._folder):
            self._folder.mkdir(parents=True)

    def put(self, batch: int, collected: Mapping[int, list[Any]], metrics: StepMetrics, written: Counter[str]) -> None:
        packed = {number: self._codec.dumps(values) for number, values in collected.items() if values}
        with checkpoint_errors(self._folder):
            for number in collected:
                file = self._folder / f"{_prefix_of(number)}{batch}"
                if number in packed:
                    write_whole(file, packed[number])
                else:
                    file.unlink(missing_ok=True)
        # The counts are read each time, since another process of the server may have written them.
        before = self._read_counts()
        counts = before.with_batch(batch, metrics, written)
        if counts is not before:
            self._counts_file.write(counts)

    def report(self, progress: PipelineProgress) -> None:
        self._report_file(progress.batch).write(progress)
        with checkpoint_errors(self._folder):
            self._report_file(progress.batch - _REPORTS_KEPT).path.unlink(missing_ok=True)

    def latest_report(self) -> PipelineProgress | None:
        newest = max(self._batches(_REPORT), default=-1)
        return next(iter(self.reports(newest - 1)), None)

    def reports(self, after: int) -> list[PipelineProgress]:
        stored = (self._report_file(batch).read() for batch in self._batches(_REPORT) if batch > after)
        return [report for report in stored if report is not None]

    def collected(self, number: int) -> list[Any]:
        files = [self._folder / f"{_prefix_of(number)}{batch}" for batch in self._batches(_prefix_of(number))]
        return [value for file in files for value in self._read(file)]

    def _totals(self) -> StepMetrics:
        return self._read_counts().totals()

    @property
    def _counts_file(self) -> StoredFile[_Counts]:
        return StoredFile(self._folder / "counts", _Counts)

    def _report_file(self, batch: int) -> StoredFile[PipelineProgress]:
        return StoredFile(self._folder / f"{_REPORT}{batch}", PipelineProgress)

    def _read_counts(self) -> _Counts:
        counts = self._counts_file.read()
        if counts is None:
            self._check_folder()
        return counts or _Counts()

    def _read(self, file: Path) -> list[Any]:
        with checkpoint_errors(self._folder):
            try:
                packed = file.read_bytes()
            except FileNotFoundError:
                self._check_folder()
                return []  # the batch ran again, and collected nothing
        with errors_at(str(file)):
            return self._codec.loads(packed)

    def _batches(self, prefix: str) -> list[int]:
        """Returns the batch numbers of the files whose names have a prefix, in order."""
        self._check_folder()
        return sorted(file_numbers(self._folder, prefix))

    def _check_folder(self) -> None:
        with checkpoint_errors(self._folder):
            self._folder.stat()


def _prefix_of(number: int) -> str:
    """Returns the prefix of the names of a sink's files, after which the batch number follows."""
    return f"sink-{number}-batch-"

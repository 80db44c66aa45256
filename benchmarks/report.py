"""Figures as Markdown tables for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.environment import Environment
from benchmarks.interpreter_workloads import InterpreterResult
from benchmarks.results import InputResult, Run, SparkWorkloadResult
from benchmarks.scale import Scale
from benchmarks.section import Section, markdown_table
from benchmarks.workloads import BASELINES

__all__ = ["Report", "ratio"]


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one run of the benchmark. What is added is printed at once.

    Attributes:
        environment: Where and when.
        scale: How much was run.
        spark: The workloads on Spark.
        interpreter: The workloads in the interpreter.
        sections: What has a table of its own.
    """

    environment: Environment
    scale: Scale
    spark: list[SparkWorkloadResult] = field(default_factory=list)
    interpreter: list[InterpreterResult] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def head(self) -> str:
        """What stands above the tables."""
        lines = [self.environment.text()]
        if self.scale.quick:
            lines.append("Quick run: little input, rough figures.")
        return "\n".join(lines)

    def add_spark(self, result: SparkWorkloadResult) -> None:
        """Keep the figures of a workload and print them, if any contender that was asked for has it."""
        if result.inputs:
            self.spark.append(result)
            print("\n" + _spark_text(result), flush=True)

    def add_interpreter(self, result: InterpreterResult) -> None:
        """Keep the figures of a workload and print them."""
        self.interpreter.append(result)
        print("\n" + _interpreter_text(result), flush=True)

    def add_section(self, section: Section) -> None:
        """Keep a table and print it."""
        self.sections.append(section)
        print(f"\n#### {section.text()}", flush=True)

    def write_json(self, file: Path) -> None:
        """Write all figures to a file."""
        content = {
            "environment": asdict(self.environment),
            "scale": asdict(self.scale),
            "spark": [_spark_json(workload) for workload in self.spark],
            "interpreter": [
                {
                    "workload": result.workload.name,
                    "figures": [
                        {**asdict(figure), "elements_per_second": round(figure.elements_per_second)}
                        for figure in result.figures
                    ],
                }
                for result in self.interpreter
            ],
            "sections": [asdict(section) for section in self.sections],
        }
        file.write_text(json.dumps(content, indent=2) + "\n")


def _spark_text(result: SparkWorkloadResult) -> str:
    parts = [f"#### {result.workload.name}: {result.workload.title}"]
    for size in result.inputs:
        late = "" if size.late is None else f"; {size.late:,} readings too late"
        parts += [
            f"{size.keys:,} keys, {size.batches} batches of {size.rows_per_batch:,} rows; "
            f"{size.windows:,} windows{late}, equal in all contenders",
            _input_table(size),
        ]
        parts += [f"{run.contender}: {run.version}; {run.conditions}" for run in size.runs if run.version is not None]
        parts += [
            f"{run.contender}: the same batches, but only {run.rows // size.rows_per_batch} of them"
            for run in size.runs
            if run.version is None and run.rows != size.rows_per_batch * size.batches
        ]
    if result.workload.series is not None:
        parts.append(_series_table(result))
    return "\n\n".join(parts)


def _input_table(size: InputResult) -> str:
    baselines = [name for name in BASELINES if any(run.contender == name for run in size.runs)]
    header = ["contender", "rows/s", "slowest..fastest", "ms a batch", *(BASELINES[name] for name in baselines)]
    header += ["first batch s", "workers MiB", "largest MiB", "driver+JVM MiB", "load"]
    return markdown_table(header, [_row(run, size, baselines) for run in size.runs])


def _row(run: Run, size: InputResult, baselines: list[str]) -> list[str]:
    slowest, fastest = run.slowest_and_fastest_batch
    memory = run.peak_memory
    return [
        run.contender,
        f"{run.rows_per_second:,.0f}",
        f"{slowest:,.0f}..{fastest:,.0f}",
        "-" if run.batch_ms is None else f"{run.batch_ms:,.0f}",
        *(ratio(size.times(name, run)) for name in baselines),
        "-" if run.first_batch is None else f"{run.first_batch:.1f}",
        *(
            ["-", "-", "-"]
            if memory is None
            else [f"{memory.workers:,.0f}", f"{memory.worker:,.0f}", f"{memory.driver:,.0f}"]
        ),
        f"{max(run.loads):.1f}",
    ]


def _series_table(result: SparkWorkloadResult) -> str:
    """The cost of a record as the input grows, and how many times that of the first input it is."""
    by_keys = result.workload.series == "keys"
    names = list(dict.fromkeys(run.contender for size in result.inputs for run in size.runs))
    header = ["keys" if by_keys else "records"]
    for name in names:
        header += [f"{name}, µs", "x first"]
    rows: list[list[str]] = []
    first: dict[str, float] = {}
    for size in result.inputs:
        cells = [f"{size.keys if by_keys else size.rows_per_batch * size.batches:,}"]
        runs = {run.contender: run for run in size.runs}
        for name in names:
            if name not in runs:
                cells += ["-", "-"]
                continue
            cost = runs[name].microseconds_per_row
            cells += [f"{cost:.2f}", ratio(cost / first.setdefault(name, cost))]
        rows.append(cells)
    return f"Microseconds for a record of the steady state:\n\n{markdown_table(header, rows)}"


def ratio(value: float | None) -> str:
    """A ratio with three digits; a dash for none."""
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _interpreter_text(result: InterpreterResult) -> str:
    header = ["form", "elements", "elements/s", "seconds", "of it on the processor", "windows fired"]
    rows = [
        [
            "fast" if figure.fast else "general",
            f"{figure.elements:,}",
            f"{figure.elements_per_second:,.0f}",
            f"{figure.seconds:.2f}",
            f"{figure.cpu_seconds / figure.seconds:.0%}",
            f"{figure.results:,}",
        ]
        for figure in result.figures
    ]
    return f"#### {result.workload.name}: {result.workload.title}\n\n{markdown_table(header, rows)}"


def _spark_json(result: SparkWorkloadResult) -> dict[str, object]:
    return {
        "workload": result.workload.name,
        "title": result.workload.title,
        "inputs": [
            {
                "keys": size.keys,
                "rows_per_batch": size.rows_per_batch,
                "batches": size.batches,
                "windows": size.windows,
                "late": size.late,
                "runs": [_run_json(run, size) for run in size.runs],
            }
            for size in result.inputs
        ],
    }


def _run_json(run: Run, size: InputResult) -> dict[str, object]:
    return {
        "contender": run.contender,
        "rows": run.rows,
        "version": run.version,
        "conditions": run.conditions,
        "rows_per_second": round(run.rows_per_second),
        "batch_ms": run.batch_ms,
        "microseconds_per_row": run.microseconds_per_row,
        "times": {name: size.times(name, run) for name in BASELINES},
        "first_batch_seconds": [timing.first_batch for timing in run.timings],
        "loads": run.loads,
        "batch_seconds": [timing.batches for timing in run.timings],
        "memory_mib": [None if peak is None else asdict(peak) for peak in run.memory],
    }

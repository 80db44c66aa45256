"""Figures as tables for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.environment import Environment
from benchmarks.workloads import (
    FOLDING,
    HANDWRITTEN,
    NATIVE,
    InputResult,
    InterpreterResult,
    Run,
    Scale,
    SparkWorkloadResult,
)

__all__ = ["Report"]


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one run of the benchmark.

    Attributes:
        environment: Where and when.
        scale: How much was run.
        spark: The workloads on Spark.
        interpreter: The workloads in the interpreter.
    """

    environment: Environment
    scale: Scale
    spark: list[SparkWorkloadResult] = field(default_factory=list)
    interpreter: list[InterpreterResult] = field(default_factory=list)

    def text(self) -> str:
        """The tables."""
        lines = [self.environment.text()]
        if self.scale.quick:
            lines.append("Quick run: little input, rough figures.")
        for workload in self.spark:
            lines += ["", *_spark_text(workload)]
        for interpreted in self.interpreter:
            lines += ["", *_interpreter_text(interpreted)]
        return "\n".join(lines)

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
        }
        file.write_text(json.dumps(content, indent=2) + "\n")


def _spark_text(result: SparkWorkloadResult) -> list[str]:
    lines = [f"{result.workload.name}: {result.workload.title}"]
    for size in result.inputs:
        lines += [
            "",
            f"  {size.batches} batches of {size.rows_per_batch:,} rows; "
            f"{size.windows:,} windows, equal in all contenders",
        ]
        header = [
            "contender",
            "rows/s",
            "slowest..fastest",
            "x native",
            "x by row",
            "x folding",
            "first batch s",
        ]
        rows = [[*header, "workers MiB", "largest worker MiB", "driver+JVM MiB", "load"]]
        rows += [_spark_row(run, size) for run in size.runs]
        lines += _aligned(rows)
    return lines


def _spark_row(run: Run, size: InputResult) -> list[str]:
    slowest, fastest = run.slowest_and_fastest_batch
    memory = run.peak_memory
    return [
        run.contender,
        f"{run.rows_per_second:,.0f}",
        f"{slowest:,.0f}..{fastest:,.0f}",
        _ratio(_ratio_to(NATIVE, run, size)),
        _ratio(_ratio_to(HANDWRITTEN, run, size)),
        _ratio(_ratio_to(FOLDING, run, size)),
        f"{run.first_batch:.1f}",
        *(
            ["-", "-", "-"]
            if memory is None
            else [f"{memory.workers:,.0f}", f"{memory.worker:,.0f}", f"{memory.driver:,.0f}"]
        ),
        f"{max(run.loads):.1f}",
    ]


def _ratio_to(name: str, run: Run, size: InputResult) -> float | None:
    """How many times as fast as another contender on the same input; None where that one did not run.

    Never across inputs: each contender speeds up with the size of a batch, and not alike.
    """
    for other in size.runs:
        if other.contender == name:
            return run.rows_per_second / other.rows_per_second
    return None


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _interpreter_text(result: InterpreterResult) -> list[str]:
    rows = [["form", "elements", "elements/s", "seconds", "of it on the processor", "windows fired"]]
    rows += [
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
    return [f"{result.workload.name}: {result.workload.title}", "", *_aligned(rows)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _spark_json(result: SparkWorkloadResult) -> dict[str, object]:
    return {
        "workload": result.workload.name,
        "title": result.workload.title,
        "keys": result.workload.keys,
        "inputs": [
            {
                "rows_per_batch": size.rows_per_batch,
                "batches": size.batches,
                "windows": size.windows,
                "runs": [
                    {
                        "contender": run.contender,
                        "rows_per_second": round(run.rows_per_second),
                        "times_native": _ratio_to(NATIVE, run, size),
                        "times_handwritten_by_row": _ratio_to(HANDWRITTEN, run, size),
                        "times_handwritten_folding": _ratio_to(FOLDING, run, size),
                        "first_batch_seconds": [timing.first_batch for timing in run.timings],
                        "loads": run.loads,
                        "batch_seconds": [timing.batches for timing in run.timings],
                        "memory_mib": [None if peak is None else asdict(peak) for peak in run.memory],
                    }
                    for run in size.runs
                ],
            }
            for size in result.inputs
        ],
    }

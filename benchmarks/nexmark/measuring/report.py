"""The figures of Nexmark as a Markdown table, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.nexmark.measuring.runs import AT_THE_END, Speed

__all__ = ["HEADER", "Row", "summary"]

HEADER: Final = (
    "| query | time       |    windrow/s |     native/s | x native | steady |      Flink/s | x Flink |\n"
    "|:------|:-----------|-------------:|-------------:|---------:|-------:|-------------:|--------:|"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A query, and how fast each contender was.

    Attributes:
        query: Its name.
        windrow: Windrow on Spark.
        native: Native Spark SQL; None if it cannot state the query.
        flink: The events a second of Flink SQL; None if it was not run, or cannot state the query.
    """

    query: str
    windrow: Speed
    native: Speed | None
    flink: float | None = None

    @property
    def to_native(self) -> float | None:
        """How much faster windrow is than native Spark SQL, in the time that counts for the query."""
        return None if self.native is None else self._counted(self.windrow) / self._counted(self.native)

    @property
    def to_flink(self) -> float | None:
        """How much faster windrow is than Flink SQL, whose time is that of its whole job."""
        return None if self.flink is None else self._counted(self.windrow) / self.flink

    def text(self) -> str:
        """The line of the table."""
        native = None if self.native is None else self._counted(self.native)
        steady = None if self.native is None else self.windrow.steady / self.native.steady
        until = "to the end" if self.query in AT_THE_END else "steady"
        cells = [
            f"{self.query:5}",
            f"{until:10}",
            *(f"{text:>12}" for text in (_speed(self._counted(self.windrow)), _speed(native))),
            f"{_ratio(self.to_native):>8}",
            f"{_ratio(steady):>6}",
            f"{_speed(self.flink):>12}",
            f"{_ratio(self.to_flink):>7}",
        ]
        return f"| {' | '.join(cells)} |"

    def _counted(self, speed: Speed) -> float:
        return speed.to_the_end if self.query in AT_THE_END else speed.steady


def summary(rows: Sequence[Row]) -> str:
    """The median and the lowest of the ratios."""
    to_native = [(row.to_native, row.query) for row in rows if row.to_native is not None]
    to_flink = [(row.to_flink, row.query) for row in rows if row.to_flink is not None]
    found = {"native Spark SQL": to_native, "Flink SQL": to_flink}
    return "\n".join(_summed(name, ratios) for name, ratios in found.items() if ratios)


def _summed(name: str, ratios: Sequence[tuple[float, str]]) -> str:
    lowest, query = min(ratios)
    middle = median(ratio for ratio, _ in ratios)
    queries = "query" if len(ratios) == 1 else "queries"
    return f"x {name}: median {middle:.2f}, lowest {lowest:.2f} ({query}), of {len(ratios)} {queries}"


def _speed(speed: float | None) -> str:
    return "-" if speed is None else f"{speed:,.0f}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"

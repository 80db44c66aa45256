"""Makes the texts of the tables that terminals and notebooks show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windrow.drawing.html import table
from windrow.drawing.svg import text
from windrow.time import lag_text
from windrow_runtime.bar.measure import time_text
from windrow_tools.view.snapshot import Snapshot, StepSnapshot

HEADS: Final = ("step", "in", "out", "late", "malformed", "dropped", "windows", "timers", "state", "lag")
"""The heads of the table of steps."""

_BARS: Final = "▁▂▃▄▅▆▇█"
_BAR_COUNT: Final = 40
_STATES: Final = {"waiting": "no batch is done yet", "running": "running", "ended": "ended", "failed": "failed"}


def state_text(snapshot: Snapshot) -> str:
    """Whether the run goes on, and the newest batch."""
    batch = "" if snapshot.batch is None else f", batch {snapshot.batch}"
    return f"{_STATES[snapshot.state]}{batch}"


def figures(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The figures of the whole run, each with its name."""
    newest = snapshot.newest
    if newest is None:
        return []
    shown = [
        ("rows a second", f"{newest.rows_per_second:,.0f}"),
        ("rows", f"{snapshot.rows:,}"),
        ("time of a batch", lag_text(newest.duration_ms)),
    ]
    if snapshot.watermark is not None:
        shown.append(("watermark", f"{time_text(snapshot.watermark)} UTC"))
    if newest.lag_ms is not None:
        shown.append(("behind", lag_text(newest.lag_ms)))
    shown += [("late", f"{snapshot.late:,}"), ("malformed", f"{snapshot.malformed:,}")]
    return [*shown, ("dropped", f"{snapshot.dropped:,}")]


def cells(step: StepSnapshot) -> list[str]:
    """The row of a step, under :data:`HEADS`; a cell is empty where there is nothing to tell."""
    numbers = [step.records_in, step.records_out, step.late, step.malformed, sum(step.dropped.values())]
    return [
        step.title,
        *(f"{number:,}" for number in numbers),
        *("" if number is None else f"{number:,}" for number in (step.open_windows, step.timers)),
        "" if step.state_bytes is None else size_text(step.state_bytes),
        "" if step.lag_ms is None else lag_text(step.lag_ms),
    ]


def size_text(size: int) -> str:
    """A number of bytes in its largest decimal unit: ``135.0 kB``, ``12 B``."""
    for unit, of in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= of:
            return f"{size / of:.1f} {unit}"
    return f"{size} B"


def spark_line(values: Sequence[float]) -> str:
    """A line of bars, one for each of the newest values, as high as its part of the highest."""
    newest = values[-_BAR_COUNT:]
    most = max(newest, default=0.0)
    return "".join(_BARS[round(value / most * (len(_BARS) - 1)) if most > 0 else 0] for value in newest)


def html_of(snapshot: Snapshot) -> str:
    """What a notebook shows of a run."""
    words = ", ".join(f"{name} {value}" for name, value in figures(snapshot))
    html = [f"<p><b>{text(snapshot.pipeline)}</b> {text(state_text(snapshot))}</p>"]
    html += [f"<p>{text(words)}</p>"] if words else []
    html += [f"<pre>{text(snapshot.error)}</pre>"] if snapshot.error is not None else []
    html += [table(HEADS, map(cells, snapshot.steps))] if snapshot.steps else []
    return "\n".join(html)

"""``python -m tests.silence --plans 100 --seed 1``: an element, then nothing, on the machine's clock.

Random plans run on Spark as users run them. The window of the element has to come by the clock, within the bound and
two batch intervals. No element but late ones may be lost, also over a stop or a batch that is broken off, and the
interpreter has to give the same panes from the notes of the checkpoint. ``--idle SECONDS`` measures the processor time
of a run that waits.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.silence.drawn import Came, Drawn, Reading, Run, drawn
from windrow.sinks import CollectSink
from windrow.time import now_millis
from windrow_runtime.spark import SparkRunner

_COMPILING: Final = 120  # seconds in which the JVM compiles what it does while it waits, which takes more than the work


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the plans; returns the status of the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.silence", description=__doc__)
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--idle", type=float, metavar="SECONDS", help="measure the processor time of a waiting run instead"
    )
    options = parser.parse_args(arguments)
    if options.idle is not None:
        return _measure_idle(options.idle)
    failed, came = 0, list[Came]()
    for seed in range(options.seed, options.seed + options.plans):
        plan = drawn(seed)
        with tempfile.TemporaryDirectory(prefix="windrow-silence-") as folder:
            try:
                windows = Run(plan, None, Path(folder))()
            except AssertionError as error:
                failed += 1
                print(f"{plan}: {error}", flush=True)
            else:
                came += windows
                print(f"{plan}: {', '.join(f'{each.at - each.end} ms' for each in windows)}", flush=True)
    delays = sorted(each.at - each.end for each in came)
    print(f"{options.plans - failed} of {options.plans} plans are right; {len(came)} windows came", end="")
    print(f", {delays[len(delays) // 2]} ms after their end in the middle, {delays[-1]} ms at most" if delays else "")
    return 1 if failed else 0


def _measure_idle(seconds: float) -> int:
    """Prints the share of one processor that the driver, Spark's JVM and the workers take while nothing comes."""
    for interval in (0, 1000):
        plan = Drawn(0, 500, 1000, interval, "tumbling", "files", on_columns=True, graceful=True)
        with tempfile.TemporaryDirectory(prefix="windrow-silence-") as folder:
            print(f"interval {interval} ms: {_shares_of(plan, Path(folder), seconds)}", flush=True)
    return 0


def _shares_of(plan: Drawn, folder: Path, seconds: float) -> dict[str, str]:
    plan.prepare(folder)
    came = threading.Event()
    pipeline = plan.pipeline(folder, lambda batch, rows: came.set(), CollectSink())
    with SparkRunner(checkpoint=str(folder / "checkpoint")).start(
        pipeline, interval_seconds=plan.interval / 1000
    ) as running:
        plan.put(folder, "first", Reading("a", now_millis()))
        while not came.wait(0.1):
            assert not running.await_termination(0.01), "the run has ended"  # it raises the error of one that failed
        running.process_available()
        time.sleep(_COMPILING)
        before, began = _processor_seconds(), time.monotonic()
        time.sleep(seconds)
        after, took = _processor_seconds(), time.monotonic() - began
    return {part: f"{100 * (after[part] - before[part]) / took:.1f} %" for part in sorted(after)}


def _processor_seconds() -> dict[str, float]:
    """Returns the processor time of this process and of those that it has started, from Linux's ``/proc``."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    seconds: dict[str, float] = dict.fromkeys(["driver", "JVM", "workers"], 0.0)
    for process, (name, time_used) in used.items():
        ancestors = [process]
        while ancestors[-1] in parents:
            ancestors.append(parents[ancestors[-1]])
        if os.getpid() in ancestors:
            part = "driver" if process == os.getpid() else "JVM" if name == "java" else "workers"
            seconds[part] += time_used
    return seconds


if __name__ == "__main__":
    sys.exit(main())

"""Writes events at a steady rate, as files."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.growth.records import START_MS
from benchmarks.soak.pipeline import WINDOW_MS

__all__ = ["Feeder"]

_DISORDER_MS = 3_000  # below the watermark's delay
_STAY_SECONDS = 20
_LATE_SHARE = 0.01
_FILES_KEPT = 60


class Feeder:
    """A thread that writes a file each second while its ``with`` block runs.

    Event time goes as fast as the clock. Users come and go: each is about for twenty seconds, and has some two
    events. One event in a hundred is a day late, once :attr:`send_late` is set, and so never opens a window.

    Args:
        folder: Where to write.
        rate: Events a second.
    """

    def __init__(self, folder: Path, rate: int) -> None:
        self.send_late = False
        self.rows = 0
        self.late = 0
        self.windows = 0
        self._folder = folder
        self._rate = rate
        self._random = np.random.default_rng(11)
        self._files = 0
        self._removed = 0
        self._open: dict[int, set[int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write_until_stopped, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Write no more. Rows, late events and windows that were written can be read then."""
        self._stop.set()
        self._thread.join()

    def close_windows(self) -> None:
        """Write one event that is far in the future."""
        self._write(["closing"], [START_MS + (self._files + 10**6) * 1_000])

    def forget(self, rows_read: int) -> None:
        """Remove files that were read, but for the latest, so that the folder stays small."""
        last = rows_read // self._rate - _FILES_KEPT
        while self._removed < last:
            self._removed += 1
            self._path(self._removed).unlink()

    def _write_until_stopped(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += 1.0
            self.write_second()

    def write_second(self) -> None:
        """Write the events of one second. Called by the thread; or by others, before it begins."""
        now = START_MS + self._files * 1_000
        at = now + 1_000 - self._random.integers(0, _DISORDER_MS, self._rate)
        arrivals = max(1, self._rate // 2)
        users = self._files * arrivals + self._random.integers(0, _STAY_SECONDS * arrivals, self._rate)
        late = self._random.random(self._rate) < (_LATE_SHARE if self.send_late else 0)
        for user, start in zip(users[~late].tolist(), (at[~late] // WINDOW_MS).tolist(), strict=True):
            self._open.setdefault(start, set()).add(user)
        for start in [start for start in self._open if start < now // WINDOW_MS - 2]:
            self.windows += len(self._open.pop(start))
        self.late += int(late.sum())
        self._write([f"user-{user:09d}" for user in users], at - 86_400_000 * late)

    @property
    def windows_opened(self) -> int:
        """How many tumbling windows the events so far open."""
        return self.windows + sum(map(len, list(self._open.values())))

    def _write(self, users: list[str], at: object) -> None:
        self._files += 1
        self.rows += len(users)
        amounts = np.round(self._random.gamma(2.0, 10.0, len(users)), 2)
        hidden = self._folder / ".next.parquet"
        pq.write_table(pa.table({"user": users, "at": at, "amount": amounts}), hidden)
        os.replace(hidden, self._path(self._files))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:07d}.parquet"

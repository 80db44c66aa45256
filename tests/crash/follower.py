"""A reader beside a pipeline that is killed: it takes the files of sinks as they appear, and knows nothing of windrow.

So do Spark's stream of a folder and loaders of warehouses: they take each file once, by its name, when they see it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from tests.crash.elsewhere import Here

__all__ = ["Follower"]

_LOOK = 0.05  # seconds between two looks, so that the pipeline goes on meanwhile


class Follower:
    """Looks at the folders of sinks all the time.

    Args:
        place: Where the pipeline writes.
        copies: The folder for copies of the files, each as it was when it was seen first.

    Attributes:
        faults: What no reader may see: a file that is gone, or has become another one.
    """

    def __init__(self, place: Here, copies: Path) -> None:
        self._place = place
        self._copies = copies
        self._marks: dict[str, str] = {}
        self._ended = threading.Event()
        self._more = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower")
        self.faults: list[str] = []
        self.looks = 0

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        try:
            while not self._ended.wait(_LOOK):
                self.look()
            self.look()
        except Exception as error:
            self.faults.append(f"the reader failed: {error!r}")

    def look(self) -> None:
        """Take what has appeared, and compare what was there before."""
        marks = self._place.shown("out")
        self.looks += 1
        for path, mark in self._marks.items():
            if marks.get(path) != mark:
                self.faults.append(f"{path} is {'another file' if path in marks else 'gone'} after look {self.looks}")
        if marks.keys() - self._marks.keys():
            self._more.set()
        for path in marks.keys() - self._marks.keys():
            copy = self._copies / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(self._place.read(path))
        self._marks = marks

    def await_file(self, seconds: float) -> bool:
        """Waits until a file appears; returns whether one did in this time."""
        self._more.clear()
        return self._more.wait(seconds)

    @property
    def files(self) -> int:
        """The number of files that it has taken."""
        return len(self._marks)

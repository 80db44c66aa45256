"""The folder of a batch: what readers find in it, at every moment, and whatever died when."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from windrow_runtime.outputs.batch_folder import BatchFolder

OLD: Final = ["old-0", "old-1", "old-2"]
NEW: Final = ["new-0", "new-1"]
CHANGES: Final = ("rename", "unlink", "rmdir")
"""What changes names in a file system."""


class KilledError(BaseException):
    """As if the process were gone."""


@contextmanager
def before_each_change(do: Callable[[], None]) -> Iterator[None]:
    """Calls a function before each change of a name in the file system."""
    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, _calling(do, getattr(os, name)))
        yield


def _calling(do: Callable[[], None], change: Callable[..., Any]) -> Callable[..., Any]:  # Any: as os has it
    def changing(*given: Any, **named: Any) -> Any:
        do()
        return change(*given, **named)

    return changing


def write(folder: BatchFolder, names: list[str]) -> None:
    folder.begin()
    folder.aside.mkdir(parents=True)
    for name in names:
        (folder.aside / name).touch()
    folder.publish()


def readable(folder: BatchFolder) -> list[str]:
    """The files that a reader of the sink finds, who passes over names with an underscore."""
    return sorted(
        file.name for entry in folder.sink.iterdir() if not entry.name.startswith("_") for file in entry.iterdir()
    )


@pytest.mark.parametrize("files", [NEW, []])
def test_a_reader_never_sees_half_a_batch(tmp_path: Path, files: list[str]) -> None:
    folder = BatchFolder(tmp_path, 7)
    write(folder, OLD)
    seen = [readable(folder)]
    with before_each_change(lambda: seen.append(readable(folder))):
        if files:
            write(folder, files)
        else:
            folder.withdraw()
    seen.append(readable(folder))
    assert [state for state in seen if state not in (OLD, [], NEW)] == []
    assert (seen[0], seen[-1]) == (OLD, files)
    assert [entry.name for entry in tmp_path.iterdir()] == (["batch-7"] if files else [])


@pytest.mark.parametrize("files", [NEW, []])
def test_a_kill_at_any_moment_leaves_a_batch_that_is_whole(tmp_path: Path, files: list[str]) -> None:
    def killed_before(change: int, sink: Path) -> bool:
        """Whether there were so many changes."""
        folder = BatchFolder(sink, 7)
        write(folder, OLD)
        left = change

        def count() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError

        with before_each_change(count), suppress(KilledError):
            if files:
                write(folder, files)
            else:
                folder.withdraw()
        assert readable(folder) in (OLD, [], NEW)
        # The batch is run again, as one is that was not noted as done.
        folder.begin()
        assert readable(folder) in (OLD, [], NEW)
        assert all(entry.name == "batch-7" for entry in sink.iterdir())
        write(folder, NEW)
        assert readable(folder) == NEW
        assert [entry.name for entry in sink.iterdir()] == ["batch-7"]
        return left < 0

    moments = 0
    while killed_before(moments, tmp_path / str(moments)):
        moments += 1
    # Two renames or one, and each of the old files and their folder.
    assert moments >= (2 if files else 1) + len(OLD) + 1


def test_a_batch_that_cannot_take_its_place_leaves_the_one_before(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path, 7)
    write(folder, OLD)
    with pytest.raises(FileNotFoundError):
        folder.publish()
    assert readable(folder) == OLD


def test_batches_do_not_know_each_other(tmp_path: Path) -> None:
    write(BatchFolder(tmp_path, 1), OLD)
    write(BatchFolder(tmp_path, 11), NEW)
    BatchFolder(tmp_path, 1).withdraw()
    assert readable(BatchFolder(tmp_path, 11)) == NEW

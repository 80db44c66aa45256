"""The folder of one batch of a file sink, which becomes visible as a whole."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from windrow.addresses.paths import BATCH_FOLDER


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file such that nobody sees half of it."""
    # Several tasks may write the same: each has a name of its own aside. Spark does not list names with an underscore.
    aside = file.with_name(f"_{file.name}.{os.getpid()}")
    aside.write_bytes(content if isinstance(content, bytes) else content.encode())
    aside.replace(file)


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The files of one batch in a mounted file system. They are replaced all at once where the batch is run again.

    A batch is written between :meth:`begin` and :meth:`publish`. A process that dies at any moment leaves a batch that
    is whole, the old one or the new one, or none; the next :meth:`begin` clears the rest.
    """

    sink: Path
    batch: int

    @property
    def visible(self) -> Path:
        """The folder in which readers find the files."""
        return self.sink / f"{BATCH_FOLDER}{self.batch}"

    @property
    def aside(self) -> Path:
        """The folder in which the files are written."""
        return self.sink / f"_{BATCH_FOLDER}{self.batch}"

    @property
    def replaced(self) -> Path:
        """The folder of an earlier attempt's files while others take their place; whole, unless those have."""
        return self.sink / f"_replaced-{self.batch}"

    def begin(self) -> None:
        """Clear what an attempt left that died."""
        if not self.visible.exists():
            # It died when the old files had gone aside and the new ones had not come.
            with suppress(FileNotFoundError):
                os.rename(self.replaced, self.visible)
        clear(self.replaced)
        clear(self.aside)

    def keep(self, names: set[str]) -> list[str]:
        """Delete all files that were written aside but those of these names; gives the names that have no file."""
        found = set(os.listdir(self.aside)) if self.aside.is_dir() else set()
        # A network file system may list a folder as it was some time ago, so that it is asked again, by name.
        missing = sorted(name for name in names - found if not (self.aside / name).exists())
        if not missing:
            for name in found - names:
                (self.aside / name).unlink()
        return missing

    def publish(self) -> None:
        """Make what was written aside the files of the batch; if that fails, it has the files from before.

        A reader finds the files from before; for a moment none; then the new ones.
        """
        replaces = self.visible.exists()
        if replaces:
            os.rename(self.visible, self.replaced)
        try:
            os.rename(self.aside, self.visible)
        except OSError:
            if replaces:
                os.rename(self.replaced, self.visible)
            raise
        clear(self.replaced)

    def withdraw(self) -> None:
        """Delete the files of the batch, if it has any."""
        clear(self.aside)
        # Not where a batch waits that may come back: what is deleted there in part must not.
        with suppress(FileNotFoundError):
            os.rename(self.visible, self.aside)
        clear(self.aside)
        clear(self.replaced)


def clear(folder: Path) -> None:
    """Delete a folder, or what can be of it. If the rest is in the way of a rename, the rename raises."""
    # On a network file system a folder stays as long as somebody reads in it.
    shutil.rmtree(folder, ignore_errors=True)

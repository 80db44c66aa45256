"""The folder of a batch of a file sink: written aside, and made visible as a whole.

Readers pass over names that begin with an underscore. No name has an equals sign: readers would take the folder for the
value of a column, in front of a column of that name that the files have.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windrow.addresses.paths import BATCH_FOLDER

_NAME: Final = re.compile(rf"(_?{BATCH_FOLDER}|_replaced-)\d+", re.ASCII)


def is_batch_folder(name: str) -> bool:
    """Returns whether a folder in that of a sink has the name of a batch, or of one that is being written."""
    return _NAME.fullmatch(name) is not None


def is_unfinished(name: str) -> bool:
    """Returns whether it is the name of a batch that nobody can read, as it never became whole."""
    return name.startswith(f"_{BATCH_FOLDER}")


@dataclass(frozen=True, slots=True)
class BatchFolder:
    """The files of one batch in a mounted file system. They are replaced all at once where the batch is run again.

    A batch is written between :meth:`begin` and :meth:`publish`. A process that dies at any moment leaves a batch that
    is whole, the old one or the new one, or none; the next :meth:`begin` clears the rest.

    Attributes:
        sink: The folder of the sink.
        batch: The number of the batch.
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
        """Clear what an attempt left that died.

        Raises:
            OSError: If that fails.
        """
        if not self.visible.exists():
            # It died when the old files had gone aside and the new ones had not come.
            with suppress(FileNotFoundError):
                os.rename(self.replaced, self.visible)
        _clear(self.replaced)
        _clear(self.aside)

    def keep(self, names: set[str]) -> list[str]:
        """Delete all files that were written aside but those of these names; gives the names that have no file.

        Raises:
            OSError: If that fails.
        """
        found = set(os.listdir(self.aside)) if self.aside.is_dir() else set()
        # A network file system may list a folder as it was some time ago, so that it is asked again, by name.
        missing = sorted(name for name in names - found if not (self.aside / name).exists())
        if not missing:
            for name in found - names:
                (self.aside / name).unlink()
        return missing

    def publish(self) -> None:
        """Make what was written aside the files of the batch.

        A reader finds the files from before; for a moment none; then the new ones.

        Raises:
            OSError: If that fails. The batch then has the files from before.
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
        _clear(self.replaced)

    def withdraw(self) -> None:
        """The batch has no files, or none any more.

        Raises:
            OSError: If that fails.
        """
        _clear(self.aside)
        # Not where a batch waits that may come back: what is deleted there in part must not.
        with suppress(FileNotFoundError):
            os.rename(self.visible, self.aside)
        _clear(self.aside)
        _clear(self.replaced)


def _clear(folder: Path) -> None:
    """Delete a folder, or what can be of it. If the rest is in the way of a rename, the rename raises."""
    # On a network file system a folder stays as long as somebody reads in it.
    shutil.rmtree(folder, ignore_errors=True)

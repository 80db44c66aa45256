"""Refuses a run that a module begins at its import: the run's threads and workers would import the module, too."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

from windrow.errors import InvalidArgumentError, Location
from windrow.plan import Step


def check_imported(steps: Iterable[Step]) -> None:
    """Refuse a run that a module begins while it is imported, if the module made one of the steps.

    A thread of the run that looks for a class of this module waits until the import has ended, and the import waits for
    the run. A worker would import the module, and begin the run once more.

    Args:
        steps: The steps of the pipeline.

    Raises:
        InvalidArgumentError: If this thread imports a file with one of these steps.
    """
    files = {step.node.location.file for step in steps if step.node.location is not None}
    for file, line, module in _modules_at_import():
        if file in files:
            raise InvalidArgumentError(
                f"the module {module} runs its pipeline on Spark while it is imported: the run would wait for its end",
                given="a run at the top level of a file that is imported",
                expected="a run after the import, as by windrow run, or by python FILE",
                where=Location(file, line),
                hint='put the run below if __name__ == "__main__":, or into a function',
            )


def _modules_at_import() -> Iterator[tuple[str, int, str]]:
    """Yields the file, the line and the name of each module that this thread imports."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = frame.f_globals.get("__name__", "")
            # A program is not imported: no thread waits for it. Nor is a file that runpy runs under another name.
            if name != "__main__" and getattr(sys.modules.get(name), "__dict__", None) is frame.f_globals:
                yield frame.f_code.co_filename, frame.f_lineno, name
        frame = frame.f_back

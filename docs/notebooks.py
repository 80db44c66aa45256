"""Runs the notebooks of these pages on the interpreter, and stores their outputs: ``python -m docs.notebooks``.

A build of the pages shows what is stored, and runs nothing. A test compares it with a new run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

__all__ = ["NOTEBOOKS", "executed", "outputs_of", "store"]

# Any in this module: the cells of a notebook, which are JSON.

ROOT: Final = Path(__file__).parents[1]
# A build of the pages copies notebooks into its own folder.
NOTEBOOKS: Final = sorted(file for file in (ROOT / "docs").rglob("*.ipynb") if "_build" not in file.parts)
_SECONDS: Final = 120
_CELL: Final = re.compile(r"[^\s,]*ipykernel_\d+/\d+\.py")
"""The file that a kernel says a cell is, whose name has the number of its process."""


def executed(path: Path) -> Any:
    """Returns a notebook with the outputs of a run in a kernel of this Python; a cell that raises is an error."""
    import nbformat
    from nbclient import NotebookClient

    notebook: Any = nbformat.read(path, as_version=4)
    # Without times, versions and paths of this machine, so that the same cells give the same file.
    NotebookClient(notebook, kernel_name="python3", timeout=_SECONDS, record_timing=False).execute()
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        for kind, text in output.get("data", {}).items():
            output.data[kind] = _CELL.sub("a cell", text)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def outputs_of(notebook: Any) -> list[tuple[str, list[str]]]:
    """Returns the code of each cell, and the texts and pictures that it shows; tables in HTML are these texts again."""
    return [
        (cell.source, [shown for output in cell.outputs for shown in _shown(output)])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _shown(output: Any) -> list[str]:
    if output.output_type == "stream":
        return [output.text]
    shown = sorted(output.data.items())
    return [text for kind, text in shown if kind in {"text/plain", "image/svg+xml"} or text.startswith("<svg")]


def store(path: Path) -> None:
    """Run a notebook, and write it with its outputs."""
    import nbformat

    nbformat.write(executed(path), path)


def main() -> None:
    """Run all notebooks, and write them with their outputs."""
    for path in NOTEBOOKS:
        store(path)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()

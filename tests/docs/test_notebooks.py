"""The outputs that the notebooks of the pages have stored are those of a run."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from docs.notebooks import NOTEBOOKS, executed, outputs_of


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_stored_outputs_are_those_of_a_run(path: Path) -> None:
    stored = outputs_of(nbformat.read(path, as_version=4))
    assert len(stored) > 10
    run = outputs_of(executed(path))
    for (code, shown), (_, now) in zip(stored, run, strict=True):
        assert now == shown, f"python -m docs.notebooks stores what this cell shows now:\n{code}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_lines_of_code_fit_the_page(path: Path) -> None:
    lines = [line for code, _ in outputs_of(nbformat.read(path, as_version=4)) for line in code.splitlines()]
    assert max(map(len, lines)) <= 84


def test_outputs_that_are_told_are_texts_and_pictures() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("words"), nbformat.v4.new_code_cell("1")])
    notebook.cells[1].outputs = [
        nbformat.v4.new_output("stream", text="printed\n"),
        nbformat.v4.new_output(
            "execute_result", {"text/plain": "Timeline", "text/html": "<b>1</b>", "image/svg+xml": "<svg/>"}
        ),
    ]
    assert outputs_of(notebook) == [("1", ["printed\n", "<svg/>", "Timeline"])]

"""The example that draws the Dataflow paper."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from examples import dataflow_paper
from examples.dataflow_paper import FIGURES, NOON, Figure, record
from tests.pictures.pictured import groups, panels, texts
from tests.transcripts.paper import millis_of

# Any in this module: what JSON holds.

_PAPER: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "transcripts" / "dataflow_paper_example.json").read_text()
)["examples"][0]
_PUBLISHED: dict[int, dict[str, Any]] = {figure["figure"]: figure for figure in _PAPER["figures"]}


def test_the_inputs_are_those_of_the_paper() -> None:
    assert [(each["value"], each["event_ms"], each["processing_ms"]) for each in _PAPER["inputs"]] == list(
        dataflow_paper.INPUTS
    )
    assert [(figure.number, figure.caption) for figure in FIGURES] == [
        (number, published["title"]) for number, published in _PUBLISHED.items()
    ]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure.number))
def test_each_figure_has_the_panes_of_the_paper(figure: Figure) -> None:
    outputs = _PUBLISHED[figure.number].get("outputs", [])
    (panel,) = panels(dataflow_paper.draw(figure))
    assert len(groups(panel, "pane")) == len(outputs)
    assert len(groups(panel, "element")) == 10
    expected = Counter(
        f"\N{MINUS SIGN}{output['sum']}" if output.get("kind") == "retract" else str(output["sum"])
        for output in outputs
    )
    assert Counter(texts(panel, "value")) == expected
    # Each comes out when the paper says so; times that were measured in its figures are good to some seconds.
    found = sorted((pane.values[0], (pane.moment.clock or 0) - NOON) for pane in record(figure).of().panes)
    for (value, at), (total, wanted) in zip(
        found, sorted((output["sum"], millis_of(output["at"])) for output in outputs), strict=True
    ):
        assert value == total
        assert abs(at - wanted) <= 2_000


def test_the_figures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataflow_paper.main(["--out", str(tmp_path / "figures")])
    files = sorted((tmp_path / "figures").iterdir())
    assert [file.name for file in files] == [f"figure-{number:02d}.svg" for number in range(5, 15)]
    assert capsys.readouterr().out.splitlines() == list(map(str, files))
    for file, figure in zip(files, FIGURES, strict=True):
        assert texts(ElementTree.parse(file).getroot(), "title") == [f"Figure {figure.number}: {figure.caption}"]

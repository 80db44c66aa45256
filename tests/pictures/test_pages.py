"""The pictures of the pages: each is shown, and its text for those who do not see it is right."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from docs import pictures
from docs.pictures import PICTURES, Picture, draw_all
from examples.dataflow_paper import FIGURES

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts}
IMAGE = re.compile(r"!\[([^]]*)\]\(([^)]*_pictures)/([\w-]+)\.svg\)")
FIGURE = re.compile(r'```\{figure\} (\S*_pictures)/([\w-]+)\.svg\n:alt: "([^"]*)"\n\n(.*)\n```')


def shown() -> list[tuple[Path, str, str]]:
    """The folder, the name and the text of each picture of the pages."""
    images = [
        (page.parent / image[2], image[3], image[1]) for page, text in PAGES.items() for image in IMAGE.finditer(text)
    ]
    figures = [
        (page.parent / figure[1], figure[2], figure[3])
        for page, text in PAGES.items()
        for figure in FIGURE.finditer(text)
    ]
    return images + figures


def test_each_picture_is_shown_once() -> None:
    assert Counter(name for _, name, _ in shown()) == Counter(list(PICTURES))
    assert {folder.resolve() for folder, _, _ in shown()} == {pictures.FOLDER}


@pytest.mark.parametrize("name", PICTURES)
def test_the_text_of_a_picture_has_its_results(name: str) -> None:
    (words,) = (words for _, each, words in shown() if each == name)
    results = PICTURES[name]().results()
    told, _, listed = words.partition(" Results: ")
    assert len(told) > 20
    assert listed == ("; ".join(results) + "." if results else "")


def test_the_figures_stand_under_the_captions_of_the_paper() -> None:
    page = PAGES[DOCS / "concepts" / "dataflow-paper.md"]
    assert [(figure[2], figure[4]) for figure in FIGURE.finditer(page)] == [
        (f"figure-{figure.number:02d}", figure.title) for figure in FIGURES
    ]


def test_pictures_are_written_and_those_of_no_function_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PICTURES", {"count-trigger": PICTURES["count-trigger"]})
    old, page = tmp_path / "pictures" / "old.svg", tmp_path / "pictures" / "notes.txt"
    old.parent.mkdir()
    old.touch()
    page.touch()
    draw_all(old.parent)
    assert sorted(file.name for file in old.parent.iterdir()) == ["count-trigger.svg", "notes.txt"]
    drawn = old.with_stem("count-trigger")
    assert drawn.read_text(encoding="utf-8").startswith("<svg")
    before = drawn.stat().st_mtime_ns
    draw_all(old.parent)
    assert drawn.stat().st_mtime_ns == before


def test_a_picture_that_raises_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Picture:
        raise ValueError("no elements")

    monkeypatch.setitem(PICTURES, "broken", broken)
    with pytest.raises(RuntimeError, match="picture broken cannot be drawn: no elements"):
        draw_all(tmp_path)

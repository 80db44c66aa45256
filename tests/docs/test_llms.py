"""The file that assistants ask a site for."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\]\(([\w/-]+)\.html\)")


def test_llms_txt_names_pages_that_are_there() -> None:
    pages = LINK.findall((DOCS / "llms.txt").read_text())
    assert len(pages) > 20
    assert [page for page in pages if not any((DOCS / f"{page}{end}").exists() for end in (".md", ".ipynb"))] == []


def test_llms_txt_names_the_pages_of_most_readers() -> None:
    """All pages that the front page names in its navigation, but those about the project itself."""
    groups = re.findall(r":caption: (\w+)\n\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
    wanted = {page for caption, pages in groups if caption != "Project" for page in pages.split()}
    named = set(LINK.findall((DOCS / "llms.txt").read_text()))
    assert wanted - named == set()

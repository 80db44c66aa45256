"""Counts the words of built pages: who reads a page wants to come to its end."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Final

MOST_WORDS: Final = 3_000
"""How many words the article of a page may have, code and tables among them."""

LONG_BY_NATURE: Final = ("tutorial", "notebook", "changelog")


class Article(HTMLParser):
    """Counts the words of a page's article; each tag ends a word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = 0
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag == "article"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.words += len(data.split())


def words_of(text: str) -> int:
    """Returns how many words the article of an HTML page has."""
    article = Article()
    article.feed(text)
    return article.words


def too_long(folder: Path) -> list[str]:
    """Returns a line for each built page with more words than a page may have."""
    counted = {
        str(file.relative_to(folder)): words_of(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.html"))
        if file.stem not in LONG_BY_NATURE
    }
    return [
        f"{page}: it has {words} words, and may have {MOST_WORDS}; say less, or split it"
        for page, words in counted.items()
        if words > MOST_WORDS
    ]

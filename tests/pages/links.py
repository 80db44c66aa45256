"""Looks up the links of built pages and of the repository's own texts, without a network.

A link inside has to lead to a file, and to an anchor of it. Of a link outside only the address is looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

SCHEMES = ("http", "https", "mailto")


@dataclass
class Page(HTMLParser):
    """The anchors and the links of an HTML page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        for name in ("href", "src"):
            if (value := values.get(name)) is not None and not value.startswith("data:"):
                self.links.append(value)

    @classmethod
    def of_html(cls, text: str) -> Page:
        page = cls()
        page.feed(text)
        return page

    @classmethod
    def of_markdown(cls, text: str) -> Page:
        """Returns what GitHub makes of a text: its headings are anchors."""
        page = cls.of_html(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
        seen: Counter[str] = Counter()
        tokens = MarkdownIt("commonmark").parse(text)
        for token, content in pairwise(tokens):
            if token.type == "heading_open":
                anchor = re.sub(r"[^\w\- ]", "", content.content.lower()).replace(" ", "-")
                page.anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
                seen[anchor] += 1
        return page


def outside_problem(link: str) -> str | None:
    """Says what is wrong with an address on the web, as far as it can be seen."""
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return str(error)
    if parts.scheme not in SCHEMES:
        return f"the scheme is {parts.scheme!r}, expected one of {', '.join(SCHEMES)}"
    if re.search(r"\s", link):
        return "it has a space"
    if parts.scheme != "mailto" and not re.fullmatch(r"([\w-]+\.)*[\w-]+(:\d+)?", parts.netloc):
        return f"{parts.netloc!r} is no host"
    return None


def problems(pages: dict[Path, Page], folder: Path) -> Iterator[str]:
    """Yields a line for each link that leads nowhere.

    Args:
        pages: The pages whose links are looked up, by their files; links to others need the file alone.
        folder: What names in the lines are relative to; a link must not lead out of it.
    """
    for file, page in pages.items():
        for link in dict.fromkeys(page.links):
            found = _problem(link, file, pages, folder)
            if found is not None:
                yield f"{file.relative_to(folder)}: {link}: {found}"


def _problem(link: str, file: Path, pages: dict[Path, Page], folder: Path) -> str | None:
    if re.match(r"[a-z][a-z+.-]*:|//", link, re.IGNORECASE):
        return outside_problem(f"https:{link}" if link.startswith("//") else link)
    path, _, anchor = link.partition("#")
    target = (file.parent / unquote(path.partition("?")[0])).resolve() if path else file
    if not target.is_relative_to(folder):
        return "it leads out of the folder"
    if target.is_dir() and file.suffix == ".html":
        target /= "index.html"
    if not target.exists():
        return "there is no such file"
    if anchor and target in pages and unquote(anchor) not in pages[target].anchors:
        return "there is no such anchor"
    return None


def of_built_pages(folder: Path) -> list[str]:
    """Returns a line for each link of the built pages that leads nowhere."""
    folder = folder.resolve()
    files = sorted(folder.rglob("*.html"))
    return [*problems({file: Page.of_html(file.read_text(encoding="utf-8")) for file in files}, folder)]


def of_texts(root: Path, names: Sequence[str]) -> list[str]:
    """Returns a line for each link of Markdown files in the repository that leads nowhere."""
    root = root.resolve()
    texts = {root / name: Page.of_markdown((root / name).read_text(encoding="utf-8")) for name in names}
    # The pages under docs are looked up when they are built; here they have anchors alone.
    others = {file: Page.of_markdown(file.read_text(encoding="utf-8")) for file in (root / "docs").rglob("*.md")}
    for file, page in others.items():
        if file not in texts:
            page.links.clear()
    return [*problems({**others, **texts}, root)]

"""Shows built pages in a headless Chromium: measures them at several widths, and makes pictures of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, Page

from tests.browser.chromium import running_browser, served

WIDTHS = (1280, 420)
"""The widths in pixels at which pages are shown: a laptop's and a phone's."""

MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")


class Finding(NamedTuple):
    """What is wrong with a page at a width."""

    page: str
    width: int
    problem: str

    def __str__(self) -> str:
        return f"{self.page} at {self.width} px: {self.problem}"


def measure(folder: Path, pages: Sequence[str]) -> list[Finding]:
    """Returns what is wrong with pages: they scroll sideways, something is wider than they are, or code is cut.

    Raises:
        NoBrowserError: If there is no Chromium.
    """
    findings: list[Finding] = []
    with served(folder) as address, running_browser() as browser:
        for width in WIDTHS:
            with _window(browser, width, 900, "light") as window:
                for page in pages:
                    window.goto(f"{address}/{page}")
                    findings += [Finding(page, width, problem) for problem in window.evaluate(MEASURE)]
    return findings


def photograph(folder: Path, pages: Sequence[str], into: Path) -> list[Path]:
    """Makes a picture of the whole of each page at each width, light and dark, and returns the files.

    Raises:
        NoBrowserError: If there is no Chromium.
    """
    files: list[Path] = []
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    with served(folder) as address, running_browser() as browser:
        for width in WIDTHS:
            for scheme in schemes:
                with _window(browser, width, 900, scheme) as window:
                    for page in pages:
                        window.goto(f"{address}/{page}")
                        name = page.removesuffix(".html").replace("/", "-")
                        files.append(into / f"{name}-{width}-{scheme}.png")
                        window.screenshot(path=files[-1], full_page=True)
    return files


@contextmanager
def _window(browser: Browser, width: int, height: int, scheme: Literal["light", "dark"]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    try:
        yield context.new_page()
    finally:
        context.close()

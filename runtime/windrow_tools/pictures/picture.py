"""Defines the picture of a run, as SVG and as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from windrow.drawing.html import table
from windrow.drawing.style import colours_of
from windrow.drawing.svg import picture, shortened, text
from windrow.errors import InvalidArgumentError, require_callable
from windrow_runtime.operators.errors import line_of_caller, misuse
from windrow_runtime.operators.recording import Recording
from windrow_tools.pictures.style import RULES

LEAST_WIDTH: Final = 240
"""The least width of a picture, in pixels."""

_CLASS: Final = "windrow-timeline"


# Any: values of every type.
def checked_input(recording: object, values: Callable[[Any], str]) -> Callable[[Any], str]:
    """Refuses what is no recording; returns a function that makes texts of values, and refuses what is none."""
    if not isinstance(recording, Recording):
        raise misuse(
            "a picture is drawn of a recording",
            given=f"a {type(recording).__name__}",
            expected="a Recording",
            hint="harness.recording, or LocalRunner(record=True).run(pipeline).recording",
        )
    expected = "a function that makes a text of an element, and of a result"
    require_callable(values, "values of a picture", expected, takes="value", where=line_of_caller())

    def shown(value: Any) -> str:
        text: object = values(value)
        if not isinstance(text, str):
            raise misuse(
                "values of a picture makes no text", given=text, expected="a str", hint="lambda value: str(...)"
            )
        return text

    return shown


@dataclass(frozen=True, slots=True, repr=False)
class Timeline:
    """A picture of a run, which notebooks display.

    Attributes:
        title: Its title.
        svg: The picture as SVG, which needs no other file.
        html: A page with the picture, and a table of what it shows.
    """

    title: str
    svg: str
    html: str

    def __repr__(self) -> str:
        return f"Timeline({self.title!r}, {len(self.svg):,} characters of SVG)"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, as SVG or as HTML by the suffix of its name.

        Args:
            path: The file; an existing one is replaced.

        Returns:
            The file.

        Raises:
            InvalidArgumentError: If the suffix is another one.
        """
        file = Path(path)
        contents = {".svg": self.svg, ".html": self.html}
        if file.suffix not in contents:
            raise InvalidArgumentError(
                "a picture is SVG or HTML", given=str(path), expected="a path with .svg or .html"
            )
        file.write_text(contents[file.suffix], encoding="utf-8")
        return file


def whole(words: str, parts: Sequence[str], width: float, height: float) -> str:
    """Returns the SVG of a picture; ``words`` is its accessible title."""
    return picture(_CLASS, RULES, words, parts, (width, height))


def page(title: str, svg: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an HTML page that needs no other file."""
    light, dark = colours_of("ground", "ink")
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>",
            "<style>",
            f"body {{ {light}; font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem }}",
            f"@media (prefers-color-scheme: dark) {{ body {{ {dark} }} }}",
            "svg { max-width: 100%; height: auto }",
            "table { border-collapse: collapse; margin: 1rem 0 0 92px }",
            "th, td { border-bottom: 1px solid #8886; padding: 0.15rem 1rem 0.15rem 0; text-align: left }",
            "</style>",
            "</head>",
            "<body>",
            svg,
            table(heads, [[shortened(cell, 200) for cell in cells] for cells in rows]),
            "</body>",
            "</html>",
            "",
        )
    )

"""Defines the picture of a run, as SVG and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from windrow.errors import InvalidArgumentError
from windrow_runtime.pictures.style import style_sheet
from windrow_runtime.pictures.svg import element, number, text

LEAST_WIDTH: Final = 240
"""The least width of a picture, in pixels."""

_CLASS: Final = "windrow-timeline"


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
    return element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "class": _CLASS, "role": "img"}
        | {"viewBox": f"0 0 {number(width)} {number(height)}"}
        | {"width": width, "height": height},
        element("title", {}, text(words)),
        element("style", {}, text(style_sheet(_CLASS)).replace("&quot;", '"')),
        element("rect", {"class": "ground", "width": width, "height": height}),
        "\n".join(parts),
    )

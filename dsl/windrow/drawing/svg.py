"""Writes SVG: whole pictures, elements with escaped attributes and text, and texts cut to a length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from unicodedata import east_asian_width

from windrow.drawing.style import style_sheet

# The same as xml.sax.saxutils.escape, whose module imports those of HTTP.
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})

# Characters that XML 1.0 cannot represent.
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(content: str) -> str:
    """Escapes text for XML; a character that XML cannot represent becomes U+FFFD."""
    return _NOT_XML.sub("\ufffd", content).translate(_ESCAPES)


def element(name: str, attributes: dict[str, str | float], *content: str) -> str:
    """An XML element; ``content`` is XML. Underscores in names of attributes become hyphens."""
    shown = "".join(f' {key.replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{''.join(content)}</{name}>" if content else f"<{name}{shown}/>"


def picture(kind: str, rules: str, words: str, parts: Sequence[str], size: tuple[float, float]) -> str:
    """A whole picture, which needs no other file.

    Args:
        kind: The class of the picture, in which its style sheet holds.
        rules: Its outlines, for :func:`windrow.drawing.style.style_sheet`.
        words: Its accessible title.
        parts: What it is made of, as XML.
        size: Its width and its height.
    """
    width, height = size
    return element(
        "svg",
        {"xmlns": "http://www.w3.org/2000/svg", "class": kind, "role": "img"}
        | {"viewBox": f"0 0 {number(width)} {number(height)}"}
        | {"width": width, "height": height},
        element("title", {}, text(words)),
        element("style", {}, text(style_sheet(kind, rules)).replace("&quot;", '"')),
        element("rect", {"class": "ground", "width": width, "height": height}),
        "\n".join(parts),
    )


def number(value: float) -> str:
    """Formats a number with at most one decimal place."""
    return f"{value:.1f}".removesuffix(".0")


def shortened(content: str, most: int) -> str:
    """Shortens a text to one line of at most ``most`` characters."""
    line = " ".join(content.split())
    return line if len(line) <= most else f"{line[: max(most - 1, 1)]}…"


def width_of(content: str, size: float) -> float:
    """Estimates the width of a text in a font of ``size`` pixels."""
    return size * sum(1.0 if east_asian_width(character) in "WF" else 0.58 for character in content)


def wrapped(content: str, width: float, size: float) -> list[str]:
    """Wraps a text in a font of ``size`` pixels into lines that are at most ``width`` wide, unless a word is wider."""
    lines: list[str] = []
    for word in content.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _value(value: str | float) -> str:
    return text(value) if isinstance(value, str) else number(value)

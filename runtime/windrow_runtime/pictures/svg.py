"""Writes SVG: elements with escaped attributes and text, and texts cut to a length."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

# XML 1.0 has no way to write other characters.
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(content: str) -> str:
    """Text as XML writes it; a character that XML does not have becomes U+FFFD."""
    return escape(_NOT_XML.sub("\ufffd", content), {'"': "&quot;"})


def element(name: str, attributes: dict[str, str | float], *content: str) -> str:
    """An element; ``content`` is XML already. Underscores in the names of attributes stand for hyphens."""
    shown = "".join(f' {key.replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{shown}>{''.join(content)}</{name}>" if content else f"<{name}{shown}/>"


def number(value: float) -> str:
    """A number with one decimal place at most."""
    return f"{value:.1f}".removesuffix(".0")


def shortened(content: str, most: int) -> str:
    """A text in one line of ``most`` characters at most."""
    line = " ".join(content.split())
    return line if len(line) <= most else f"{line[: max(most - 1, 1)]}…"


def width_of(content: str, size: float) -> float:
    """The width of a text in a font of ``size`` pixels, roughly: no font is at hand."""
    return size * sum(1.0 if east_asian_width(character) in "WF" else 0.58 for character in content)


def wrapped(content: str, width: float, size: float) -> list[str]:
    """The lines of a text in a font of ``size`` pixels, none wider than ``width`` unless a word is."""
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

"""Defines the colours of pictures, for light and dark backgrounds, and writes their CSS."""

from __future__ import annotations

import re
from typing import Final

_COLOURS: Final = {
    "ground": ("#ffffff", "#12161c"),
    "ink": ("#1c2128", "#e6eaf0"),
    "soft": ("#57606a", "#a3adba"),
    "grid": ("#e3e7ec", "#2b323c"),
    "element": ("#ffd8a8", "#7a4a12"),
    "element-line": ("#b35900", "#ffb366"),
    "second": ("#d3e5ff", "#1d3f6e"),
    "second-line": ("#2f6fd0", "#79b0ff"),
    "broadcast": ("#ecd9fa", "#4a2566"),
    "broadcast-line": ("#8a3fc7", "#cf9bff"),
    "dropped": ("#e6e8eb", "#353c47"),
    "watermark": ("#0a7d55", "#46d39a"),
    "early": ("#2f6fd0", "#79b0ff"),
    "on-time": ("#1c2128", "#e6eaf0"),
    "late": ("#8a3fc7", "#cf9bff"),
    "withdrawn": ("#c8283c", "#ff8591"),
}
"""Each colour on a light and on a dark background."""

_COMMON: Final = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: $ink }
.ground { fill: $ground }
.title { font-size: 15px; font-weight: 600 }
"""


def style_sheet(name: str, rules: str) -> str:
    """The CSS for elements inside of an element of the class ``name``.

    Each colour is declared twice: some programs do not support variables, and use the one for light backgrounds.

    Args:
        name: The class.
        rules: Rules of CSS, one a line, in which ``$name`` stands for a colour.
    """
    lines = [line for line in f"{_COMMON}{rules}".splitlines() if line]
    used = {colour: _COLOURS[colour] for colour in dict.fromkeys(re.findall(r"\$([a-z-]+)", "".join(lines)))}
    light = "; ".join(f"--windrow-{colour}: {pair[0]}" for colour, pair in used.items())
    dark = "; ".join(f"--windrow-{colour}: {pair[1]}" for colour, pair in used.items())
    scoped = [_scoped(rule, name) for rule in lines]
    parts = [f".{name} {{ {light} }}", f"@media (prefers-color-scheme: dark) {{ .{name} {{ {dark} }} }}", *scoped]
    return "\n".join(parts)


def colours_of(ground: str, ink: str) -> tuple[str, str]:
    """The CSS of a page around pictures, for light and for dark backgrounds."""
    light, dark = (f"background: {_COLOURS[ground][side]}; color: {_COLOURS[ink][side]}" for side in (0, 1))
    return light, dark


def _scoped(rule: str, name: str) -> str:
    selectors, _, body = rule.partition("{")
    scoped = ", ".join(f".{name} {selector.strip()}" for selector in selectors.split(","))
    declarations = [_with_fallback(each.strip()) for each in body.rstrip("} ").split(";")]
    return f"{scoped} {{ {'; '.join(declarations)} }}"


def _with_fallback(declaration: str) -> str:
    match = re.fullmatch(r"([a-z-]+): \$([a-z-]+)", declaration)
    if match is None:
        return declaration
    light = _COLOURS[match[2]][0]
    return f"{match[1]}: {light}; {match[1]}: var(--windrow-{match[2]})"

"""Defines the colours and outlines of a picture, for light and dark backgrounds."""

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

_RULES: Final = """
text { font: 12px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: $ink }
.ground { fill: $ground }
.title { font-size: 15px; font-weight: 600 }
.key { font-size: 13px; font-weight: 600 }
.tick, .axis, .note { fill: $soft; font-size: 11px }
.grid { stroke: $grid; stroke-width: 1 }
.frame { stroke: $soft; stroke-width: 1; fill: none }
.watermark { stroke: $watermark; stroke-width: 2; fill: none; stroke-linejoin: round }
.no-delay { stroke: $soft; stroke-width: 1; fill: none; stroke-dasharray: 1 4 }
.pane rect { fill: $early; fill-opacity: 0.09; stroke: $on-time; stroke-width: 1.3 }
.pane.early rect { stroke: $early; stroke-dasharray: 6 3 }
.pane.on-time rect { stroke: $on-time; stroke-width: 2.4 }
.pane.late rect { fill: $late; fill-opacity: 0.1; stroke: $late; stroke-width: 1.6; stroke-dasharray: 1.5 2.5 }
.pane.withdrawn rect { fill: $withdrawn; fill-opacity: 0.13; stroke: $withdrawn; stroke-dasharray: 3 2 }
.value { font-size: 14px; font-weight: 700; stroke: $ground; stroke-width: 3px; paint-order: stroke }
.withdrawn .value { font-size: 12px; fill: $withdrawn }
.element circle { fill: $element; stroke: $element-line; stroke-width: 1.3 }
.element.late circle { stroke-width: 2; stroke-dasharray: 2.5 1.8 }
.element.dropped circle { fill: $dropped; stroke: $soft; stroke-width: 1.3 }
.element .cross { stroke: $withdrawn; stroke-width: 2 }
.number { font-size: 10px; font-weight: 600; text-anchor: middle }
.dropped .number { stroke: $dropped; stroke-width: 3px; paint-order: stroke }
.line { font-size: 12px; font-weight: 600 }
.box rect { fill: $element; stroke: $element-line; stroke-width: 1.3 }
.box.second rect { fill: $second; stroke: $second-line }
.box.broadcast rect { fill: $broadcast; stroke: $broadcast-line }
.box.time rect { fill: $ground; stroke: $watermark; stroke-width: 2 }
.box.result rect { fill: $ground; stroke: $on-time; stroke-width: 2 }
.arrow { stroke: $soft; stroke-width: 1.4; fill: none }
.beside { font-size: 10px; fill: $soft; stroke: $ground; stroke-width: 3px; paint-order: stroke }
"""


def style_sheet(name: str, rules: str = _RULES) -> str:
    """Returns the CSS for elements inside of an element of the class ``name``; ``rules`` are a line each.

    Each colour is declared twice: some programs do not support variables, and use the one for light backgrounds.
    """
    light = "; ".join(f"--windrow-{colour}: {pair[0]}" for colour, pair in _COLOURS.items())
    dark = "; ".join(f"--windrow-{colour}: {pair[1]}" for colour, pair in _COLOURS.items())
    scoped = [_scoped(rule, name) for rule in rules.strip().splitlines()]
    parts = [f".{name} {{ {light} }}", f"@media (prefers-color-scheme: dark) {{ .{name} {{ {dark} }} }}", *scoped]
    return "\n".join(parts)


def colours_of(ground: str, ink: str) -> tuple[str, str]:
    """Returns the CSS of a page around pictures, for light and for dark backgrounds."""
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

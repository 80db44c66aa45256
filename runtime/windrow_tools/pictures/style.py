"""Defines the outlines of pictures of runs; their colours are those of :mod:`windrow.drawing.style`."""

from __future__ import annotations

from typing import Final

RULES: Final = """
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
"""Rules of CSS, in which ``$name`` stands for a colour."""

"""The worked example of the Dataflow paper, figures 5 to 14, and its variants in the book "Streaming Systems"."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from tests.transcripts.checking import Pane, compare
from tests.transcripts.engine import Clock, Engine, Input, Operation, Watermark

# Any in this module: what JSON holds.

_MINUTE: Final = 60_000
_MODES: Final = {"accumulating_and_retracting": "retracting", "none": "accumulating"}
_FOR_EVER: Final = 10 * 24 * 60 * _MINUTE
_TOLERANCE: Final = {"exact": 2_000, "batch": 2_000, "approximate": 3_000}
"""How far in milliseconds a pane may be from its figure: the watermark was measured there, to about two seconds."""


def millis_of(text: str) -> int:
    """The milliseconds since noon of a time of day, such as ``12:03:06.667``."""
    hours, minutes, *rest = text.split(":")
    seconds = float(rest[0]) if rest else 0.0
    return (int(hours) - 12) * 60 * _MINUTE + int(minutes) * _MINUTE + round(seconds * 1000)


def paper_cases(data: Mapping[str, Any], engine: Engine) -> Iterator[tuple[str, Callable[[], None]]]:
    """The cases of the file: a figure of the paper each, and a variant of the book each."""
    for example in data["examples"]:
        for figure in example.get("figures", []):
            if "outputs" in figure:
                yield f"{example['id']}, figure {figure['figure']}", partial(_run_figure, example, figure, engine)
        for variant in example.get("variants", []):
            yield f"{example['id']}, {variant['example']}", partial(_run_variant, example, variant, engine)


# The paper


class Shown(NamedTuple):
    """A pane with the time of the clock at which it came out."""

    at: int
    pane: Pane


def figure_case(figure: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a figure, as a transcript has them."""
    window: Any = figure["window"]
    if window == "global":
        window = {"kind": "global"}
    elif "fixed_minutes" in window:
        window = {"kind": "fixed", "size": window["fixed_minutes"] * _MINUTE}
    else:
        window = {"kind": "sessions", "gap": window["session_gap_minutes"] * _MINUTE}
    mode = _MODES.get(figure["mode"], figure["mode"])
    return {
        "window_fn": window,
        "trigger": figure["trigger"],
        "accumulation_mode": mode,
        "allowed_lateness": _FOR_EVER,
        "on_time": "if_non_empty",
        "firing": "per_step" if figure["engine"].startswith("micro-batch") else "any",
    }


def figure_operations(example: Mapping[str, Any], figure: Mapping[str, Any]) -> list[tuple[int, Operation]]:
    """The operations of a figure of the paper, each with its time on the clock."""
    found: list[tuple[int, Operation]] = []
    arrivals = sorted((each["processing_ms"], each["event_ms"], each["value"]) for each in example["inputs"])
    if figure["engine"] == "batch":
        whole = Input(tuple([(event, value) for _, event, value in arrivals]))
        return [(0, whole), (0, Watermark("inf"))]
    if figure["engine"].startswith("micro-batch"):
        for at in range(6 * _MINUTE, 10 * _MINUTE, _MINUTE):
            batch = sorted((event, value) for when, event, value in arrivals if at - _MINUTE < when <= at)
            # The watermark runs from the start to the end in each batch, so later ones come behind it.
            found += [(at, Input(tuple(batch))), (at, Watermark(_FOR_EVER // 2))]
        return found
    passes = [
        (millis_of(each["processing_time"]), millis_of(each["event_time"]))
        for each in example["figures"][0]["watermark_passes"]
    ]
    ticks = [minute * _MINUTE for minute in range(5, 11)]
    for at in sorted({*ticks, *(when for when, _ in passes), *(when for when, _, _ in arrivals)}):
        # An element that arrives at a tick belongs to what fires then.
        found.append((at - 1, Clock(at - 1)))
        found += [(at, Input(((event, value),))) for when, event, value in arrivals if when == at]
        found += [(at, Watermark(event)) for when, event in passes if when == at]
        found.append((at, Clock(at)))
    return found


def _run_figure(example: Mapping[str, Any], figure: Mapping[str, Any], engine: Engine) -> None:
    timed_operations = figure_operations(example, figure)
    behind = engine(figure_case(figure), [operation for _, operation in timed_operations])
    found = [Shown(at, pane) for (at, _), panes in zip(timed_operations, behind, strict=True) for pane in panes]
    timed = figure["engine"] != "batch"
    missing = list(found)
    for output in figure["outputs"]:
        near = [shown for shown in missing if _fits(shown, output, timed=timed)]
        assert near, f"expected {json.dumps(output)}, came {_texts(found)}"
        missing.remove(near[0])
    assert not missing, f"nobody expects {_texts(missing)}"


def _fits(shown: Shown, output: Mapping[str, Any], *, timed: bool) -> bool:
    window = output["window"]
    expected = "global" if window == "global" else [millis_of(edge) for edge in window]
    wanted = output.get("kind", "add")
    if timed and abs(shown.at - millis_of(output["at"])) > _TOLERANCE[output["at_is"]]:
        return False
    pane = shown.pane
    return pane.window == expected and sum(pane.values) == output["sum"] and pane.is_withdrawal == (wanted == "retract")


def _texts(found: Sequence[Shown]) -> str:
    return "; ".join(f"{shown.at / _MINUTE:.2f} min: {shown.pane}" for shown in found)


# The book


def _run_variant(example: Mapping[str, Any], variant: Mapping[str, Any], engine: Engine) -> None:
    case = {**variant, "accumulation_mode": _MODES.get(variant["mode"], variant["mode"])}
    panes = list(chain.from_iterable(engine(case, _variant_operations(example, variant))))
    if "medium for the absence of more" in variant["certainty"]:
        panes = _without_closing_panes(panes)
    compare(panes, variant["panes"])


def _without_closing_panes(panes: Sequence[Pane]) -> list[Pane]:
    """The panes without those that close a window on time, and have the elements of the pane before.

    The book's program stops looking before windows close; in Beam each of them then has such a pane.
    """
    kept: list[Pane] = []
    for pane in panes:
        before = [other for other in kept if other.window == pane.window]
        closes = pane.final and pane.timing == "ON_TIME" and before and before[-1].values == pane.values
        if not closes:
            kept.append(pane)
    return kept


def _variant_operations(example: Mapping[str, Any], variant: Mapping[str, Any]) -> list[Operation]:
    if variant["stream"] is None:
        inputs = sorted(example["inputs"], key=lambda each: each["processing"])
        return [*[Input(((each["event"], each["value"]),)) for each in inputs], Watermark("inf")]
    found: list[Operation] = []
    for kind, value, *rest in example["streams"][variant["stream"]]:
        if kind == "input":
            found.append(Input(((rest[0], value),)))
        else:
            found.append(Watermark(value) if kind == "watermark" else Clock(value))
    return found

"""Random side inputs: the functions of one stream take values of views of another one.

Views are in windows, and hold what does not depend on the order among keys: what a view of the global window holds
depends on the batches. Elements that have waited come out in no order, and below the watermark.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.differential import functions as f
from tests.differential.drawn import LATE, offset
from tests.spark.comparison import Event, Outputs, millis
from windrow import DataStream, OutputTag, SideInput, as_dict, as_list, as_singleton
from windrow.failures import Failed
from windrow.windows import SlidingEventTimeWindows, TumblingEventTimeWindows

# Any in this module: views and stages of every kind.

_ASIDE = OutputTag[tuple[str, int]]("aside")
_FAILED = OutputTag("failed", Failed[Event])


def with_views(
    chance: random.Random, main: DataStream[Event], side: DataStream[Event], name: str, outputs: Outputs
) -> DataStream[Any]:
    """A step that gives functions of ``main`` one or two views of ``side``."""
    views = [_view(chance, side, f"{name} view {number}") for number in range(chance.choice([1, 1, 2]))]
    late = LATE if chance.random() < 0.5 else None
    lateness = millis(chance.choice([0, 0, chance.randrange(120)]))
    # Any: how many views there are is drawn, and whether there are keys.
    begin: Any = main.key_by(f.event_key) if chance.random() < 0.3 else main
    stage = begin.with_side_input(*views, allowed_lateness=lateness, late=late, name=name)
    if late is not None:
        outputs.add(f"{name} late", stage.get_side_output(late), None)
    match chance.randrange(5):
        case 0:
            policy: Any = chance.choice(["drop", _FAILED])
            result: DataStream[Any] = stage.map(_refusing, on_error=policy, name=f"{name} failing")
            if policy is _FAILED:
                outputs.add(f"{name} failed", result.get_side_output(_FAILED).map(_element_of), None)
        case 1:
            result = stage.map(_seen, name=f"{name} map")
        case 2:
            result = stage.flat_map(_seen_each, name=f"{name} flat_map")
        case 3:
            result = stage.filter(_is_taken, name=f"{name} filter").map(_without_view)
        case _:
            result = stage.process(_apart, name=f"{name} process")
            outputs.add(f"{name} aside", result.get_side_output(_ASIDE), None)
    return result


def _view(chance: random.Random, side: DataStream[Event], name: str) -> SideInput[Any]:
    windows = _windows(chance)
    by_key = side.key_by(f.event_key).window(windows)
    lateness = millis(chance.choice([0, chance.randrange(90)]))
    kinds: list[Callable[[], SideInput[Any]]] = [
        lambda: as_singleton(
            side.window_all(windows).allowed_lateness(lateness).sum(f.value_of, name=name), default=None
        ),
        lambda: as_dict(by_key.allowed_lateness(lateness).sum(f.value_of, with_key=True, name=name), _first, _second),
        lambda: as_dict(side, f.event_key, f.value_of, windows=windows),
        lambda: as_list(by_key.count(with_key=True, name=name)),
        lambda: as_list(side, windows=windows),
    ]
    return chance.choice(kinds)()


def _windows(chance: random.Random) -> TumblingEventTimeWindows | SlidingEventTimeWindows:
    size = chance.randrange(20, 300)
    if chance.random() < 0.7:
        return TumblingEventTimeWindows.of(millis(size), offset(chance, size))
    slide = chance.randrange(10, 100)
    return SlidingEventTimeWindows.of(millis(size), millis(slide), offset(chance, slide))


def _first(pair: tuple[str, int]) -> str:
    return pair[0]


def _second(pair: tuple[str, int]) -> int:
    return pair[1]


def _told(view: object) -> object:
    """What a view holds, in an order of its own."""
    if isinstance(view, Mapping):
        return sorted(view.items())
    return sorted(map(repr, view)) if isinstance(view, Sequence) else view


def _seen(event: Event, *views: object) -> tuple[Any, ...]:
    return event.key, event.at, event.value, [_told(view) for view in views]


def _refusing(event: Event, *views: object) -> tuple[Any, ...]:
    if event.value % 5 == 0:
        raise ValueError(f"{event.value} is refused")
    return _seen(event, *views)


def _element_of(failed: Failed[Event]) -> Event:
    return failed.element


def _seen_each(event: Event, *views: object) -> Iterator[tuple[Any, ...]]:
    for view in views:
        yield event.key, event.value, _told(view)


def _is_taken(event: Event, *views: object) -> bool:
    return (event.value + len(repr([_told(view) for view in views]))) % 3 != 0


def _without_view(event: Event) -> tuple[Any, ...]:
    return event.key, event.at, event.value


def _apart(event: Event, *views_and_context: Any) -> Iterator[tuple[Any, ...]]:
    *views, context = views_and_context
    context.output(_ASIDE, (event.key, len(repr([_told(view) for view in views]))))
    yield event.key, event.value, context.timestamp, [_told(view) for view in views]

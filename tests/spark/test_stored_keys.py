"""Keys of another type are refused, since state of the former keys would stay where no element finds it."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.spark.test_stored_streams import SECOND, SESSION, Click, plan, read, windows
from windrow import DataStream
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError
from windrow.functions import KeyedProcessFunction
from windrow.windows import TumblingEventTimeWindows
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import resume
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: keys and streams of every type.


class ByPage(NamedTuple):
    page: str


@dataclass(frozen=True)
class Pair:
    page: str
    user: str


Reordered = make_dataclass("Pair", [("user", str), ("page", str)], frozen=True)


MADE_BY: dict[str, Any] = {"size": len, "text": repr}


def size(c: Click) -> Any:
    return MADE_BY["size"](c.page)


def text(c: Click) -> Any:
    return MADE_BY["text"](c.page)


OTHER_KEYS: dict[str, tuple[Any, Any, str]] = {
    "a pair": (lambda c: c.user, lambda c: (c.at, c.user), r"key type was str and is tuple\[int, str\]"),
    "one of a pair": (lambda c: (c.at, c.user), lambda c: c.at, r"key type was tuple\[int, str\] and is int"),
    "a text of a number": (lambda c: c.at, lambda c: str(c.at), "key type was int and is str"),
    "a record": (lambda c: c.page, lambda c: ByPage(c.page), "key type was str and is ByPage"),
    "a fraction": (lambda c: c.at, lambda c: c.at / 2, "key type was int and is float"),
    "fields in another order": (
        lambda c: Pair(c.page, c.user),
        lambda c: Reordered(c.user, c.page),
        r"key type: Pair has its fields in another",
    ),
    "fields of a part in another order": (
        lambda c: (c.at, Pair(c.page, c.user)),
        lambda c: (c.at, Reordered(c.user, c.page)),
        r"key type\[1\]: Pair has",
    ),
    "no type that is known": (text, size, "type of the keys was and is not known"),
    "a type that was not known": (text, lambda c: c.at, "type of the keys was not known, and the key"),
    "a type that is not known": (lambda c: c.at, text, "type of the keys is not known, and the key"),
}


def keyed_steps(key: Any) -> dict[str, DataStream[Any]]:
    clicks = read("a")
    keyed: Any = clicks.key_by(key)
    timed: Any = keyed.interval_join(read("b").key_by(key)).between(-SECOND, SECOND)
    both: Any = clicks.join(read("b")).where(key).equal_to(key).window(TumblingEventTimeWindows.of(SECOND))
    return {
        "windows": keyed.window(TumblingEventTimeWindows.of(SECOND)).aggregate(agg.count()),
        "function": keyed.process(Counted()),
        "rolling": keyed.sum(lambda c: c.cost),
        "interval join": timed.apply(lambda a, b: (a, b)),
        "as-of join": keyed.as_of_join(read("b").key_by(key)).apply(lambda a, b: (a, b)),
        "window join": both.apply(lambda a, b: (a, b)),
    }


class Counted(KeyedProcessFunction[Any, Click, int]):
    def process_element(self, value: Click, context: Any) -> tuple[int, ...]:
        return (1,)


@pytest.mark.parametrize("case", OTHER_KEYS)
def test_keys_of_another_type_are_refused_whatever_is_accepted(tmp_path: Path, case: str) -> None:
    first, second, told = OTHER_KEYS[case]
    streams = keyed_steps(second)
    for number, (name, stream) in enumerate(keyed_steps(first).items()):
        resume(Checkpoint.at(tmp_path / str(number)), PhysicalPlan(plan(stream)), "event time", SESSION)
        changed = plan(streams[name])
        steps = [step.id for step in (*changed.sources, *changed.keyed, *changed.timestamps)]
        with pytest.raises(IncompatibleStateError, match=told) as caught:
            resume(Checkpoint.at(tmp_path / str(number)), PhysicalPlan(changed), "event time", SESSION, accepted=steps)
        assert "accept_changes" not in str(caught.value.hint)
        assert ("key_by(selector, key_type)" in str(caught.value.hint)) == ("known" in case)


def test_a_stream_that_gets_keys_of_a_type_that_is_not_known_is_refused(tmp_path: Path) -> None:
    each: Any = TumblingEventTimeWindows.of(SECOND)
    without, keyed = plan(read("a").window_all(each).aggregate(agg.count())), plan(windows_by(text))
    for number, (first, second) in enumerate([(without, keyed), (keyed, without)]):
        resume(Checkpoint.at(tmp_path / str(number)), PhysicalPlan(first), "event time", SESSION)
        accepted = [second.keyed[0].id]
        with pytest.raises(IncompatibleStateError, match=r"key type was (no keys and is not|not known and is no)"):
            resume(
                Checkpoint.at(tmp_path / str(number)), PhysicalPlan(second), "event time", SESSION, accepted=accepted
            )


def windows_by(key: Any) -> DataStream[Any]:
    return keyed_steps(key)["windows"]


def test_an_annotation_of_the_key_may_come_and_go(tmp_path: Path) -> None:
    derived, stated = plan(windows_by(lambda c: c.user)), plan(windows(read("a"), lambda c: c.user))
    wider: Any = read("a").key_by(lambda c: c.user, str | None).window(TumblingEventTimeWindows.of(SECOND))
    for topology in (derived, stated, derived, plan(wider.aggregate(agg.count()))):
        resume(Checkpoint(tmp_path), PhysicalPlan(topology), "event time", SESSION)

"""Evictors against models that say in one line what stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import Event, Total, key_of, millis
from windrow import from_source
from windrow.errors import InvalidArgumentError
from windrow.evictors import CountEvictor, DeltaEvictor, Evictor, EvictorContext, TimeEvictor
from windrow.triggers import CountTrigger
from windrow.windows import GlobalWindow, GlobalWindows
from windrow_runtime.testing import PushSource, StreamHarness

Contents = list[Event]
Keep = Callable[[Contents], Contents]


def last(count: int) -> Keep:
    return lambda contents: contents[max(len(contents) - count, 0) :]


def younger(span: int) -> Keep:
    return lambda contents: [e for e in contents if e.at > max(other.at for other in contents) - span]


def near(threshold: int) -> Keep:
    return lambda contents: [e for e in contents if contents[-1].value - e.value < threshold]


def values(key: str, window: GlobalWindow, elements: Sequence[Event]) -> list[list[int]]:
    return [[element.value for element in elements]]


def fall(element: Event, newest: Event) -> float:
    return newest.value - element.value


rules: st.SearchStrategy[tuple[Callable[[bool], Evictor[Event, GlobalWindow]], Keep]] = st.one_of(
    st.integers(0, 5).map(lambda n: (lambda after: CountEvictor.of(n, after), last(n))),
    st.integers(0, 20).map(lambda n: (lambda after: TimeEvictor.of(millis(n), after), younger(n))),
    st.integers(-3, 20).map(lambda n: (lambda after: DeltaEvictor.of(n, fall, after), near(n))),
)


@given(
    rule=rules,
    after=st.booleans(),
    every=st.integers(1, 4),
    events=st.lists(st.builds(Event, st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 30)), max_size=20),
)
def test_what_is_evicted_leaves_for_good(
    rule: tuple[Callable[[bool], Evictor[Event, GlobalWindow]], Keep], after: bool, every: int, events: list[Event]
) -> None:
    make, keep = rule
    source = PushSource(Event)
    windows = (
        from_source(source)
        .key_by(key_of)
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(every))
        .evictor(make(after))
    )
    listed = windows.apply(values)
    summed = windows.aggregate(Total())
    contents: dict[str, Contents] = {"a": [], "b": []}
    counts = {"a": 0, "b": 0}
    with StreamHarness(listed, source, also=(summed,)) as harness:
        for event in events:
            key = event.key
            contents[key].append(event)
            counts[key] += 1
            expected: list[list[int]] = []
            if counts[key] % every == 0:
                # As in Flink, the function is also asked when all elements have just been evicted.
                kept = keep(contents[key])
                expected = [[e.value for e in (contents[key] if after else kept)]]
                contents[key] = kept
            harness.process_element(event, event.at)
            assert harness.take_values() == expected
            assert [total.value for total in harness.take(summed)] == [sum(values) for values in expected]
            # Both steps hold the same windows; one that was emptied holds nothing.
            open_keys = sorted(str(window.key) for window in harness.open_windows())
            assert open_keys == sorted(2 * [key for key, held in contents.items() if held])


def test_parameters_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="given:    -1"):
        CountEvictor.of(-1)
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        TimeEvictor.of(millis(-1))


class Choosing(Evictor[Event, GlobalWindow]):
    """Chooses positions that it was given."""

    def __init__(self, before: Sequence[Any], after: Sequence[Any]) -> None:
        self.before = before
        self.after = after

    def evict_before(
        self, elements: Sequence[Any], size: int, window: GlobalWindow, context: EvictorContext
    ) -> Sequence[int]:
        return self.before

    def evict_after(
        self, elements: Sequence[Any], size: int, window: GlobalWindow, context: EvictorContext
    ) -> Sequence[int]:
        return self.after


@pytest.mark.parametrize(
    ("before", "after", "given"),
    [
        (None, [], "None by evict_before of Choosing, for 3 elements in GlobalWindow()"),
        ([0, 3], [], "[3] by evict_before of Choosing, for 3 elements in GlobalWindow()"),
        ([-1], [], "[-1] by evict_before of Choosing, for 3 elements in GlobalWindow()"),
        ([True, "0"], [], "[True, '0'] by evict_before of Choosing, for 3 elements in GlobalWindow()"),
        (7, [], "[7] by evict_before of Choosing, for 3 elements in GlobalWindow()"),
        ([0, 1, 2], [0], "[0] by evict_after of Choosing, for 0 elements in GlobalWindow()"),
    ],
    ids=["nothing", "beyond", "negative", "no numbers", "no sequence", "of an empty window"],
)
def test_positions_that_a_window_does_not_have_are_refused(before: Any, after: Any, given: str) -> None:
    windows = (
        from_source(PushSource(Event))
        .key_by(key_of)
        .window(GlobalWindows.create())
        .trigger(CountTrigger.of(3))
        .evictor(Choosing(before, after))
    )
    with StreamHarness(windows.apply(values)) as harness:
        for at in range(2):
            harness.process_element(Event("a", at, at))
        with pytest.raises(InvalidArgumentError) as caught:
            harness.process_element(Event("a", 2, 2))
    assert caught.value.message == "an evictor gave positions that the window does not have"
    assert caught.value.given == given
    assert (caught.value.hint == "return () to evict nothing") is (before is None)
    assert "test_evictors.py" in str(caught.value.where)

"""A class that refuses a result of columns: the error tells key and window, as where results are made one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.columnar.engine import Element, at, run
from tests.columnar.planning import column_form
from tests.columnar.window_steps import Build, sessions, sliding, step, tumbling
from windrow import aggregates as agg
from windrow.errors import InvalidArgumentError, UserFunctionError
from windrow.windows import GlobalWindows

# Any in this module: results and assigners of every type.


@dataclass
class Picky:
    """Refuses totals of 13."""

    total: int

    def __post_init__(self) -> None:
        if self.total == 13:
            raise ValueError("thirteen")


@dataclass
class PickyOfKey(Picky):
    """The same with the key."""

    key: str


def positional(total: int, count: int) -> int:
    if total == 13:
        raise ValueError("thirteen")
    return total


def ending(total: int) -> int:
    if total == 13:
        raise StopIteration("thirteen")
    return total


TOTAL: Any = agg.sum(lambda e: e.number)
NAMED = agg.into(Picky, total=TOTAL)
OF_KEY = agg.into(PickyOfKey, total=TOTAL, key=agg.key())
TARGETS: dict[str, Any] = {
    "named": NAMED,
    "of the key": OF_KEY,
    "positional": agg.into(positional, TOTAL, agg.count()),
    "within another": agg.combine(agg.count(), NAMED),
}
ASSIGNERS: dict[str, tuple[Any, str]] = {
    "tumbling": (tumbling(100), "TimeWindow(start=100, end=200)"),
    # The window that ends first has the element alone.
    "sliding": (sliding(100, 50), "TimeWindow(start=50, end=150)"),
    "sessions": (sessions(10), "TimeWindow(start=130, end=140)"),
    "global": (GlobalWindows.create_with_end_of_stream_trigger(), "GlobalWindow()"),
}
ELEMENTS = [at(5, "k", 1), at(5, "l", 2), at(131, "k", 3), at(130, "l", 13), at(131, "m", 4)]


def refused(build: Build, inputs: list[list[Element]]) -> UserFunctionError:
    with pytest.raises(UserFunctionError) as caught:
        run(build, inputs, column_form, alone=True)
    assert "window_steps.py:" in str(caught.value.where)
    return caught.value


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("name", ASSIGNERS)
def test_a_result_that_its_class_refuses_is_told_with_key_and_window(name: str, target: Any) -> None:
    assigner, window = ASSIGNERS[name]
    elements = ELEMENTS[2:] if name == "global" else ELEMENTS
    error = refused(step(assigner, target), [elements])
    assert error.message == "a function of the step raised ValueError: thirteen"
    assert error.given == f"key 'l', window {window}"
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("target", [NAMED, OF_KEY], ids=["named", "of the key"])
@pytest.mark.parametrize("name", ["tumbling", "sliding", "sessions"])
def test_so_is_one_of_a_window_that_fires_again_for_a_late_element(name: str, target: Any) -> None:
    assigner, window = ASSIGNERS[name]

    # The windows of key l fire under the watermark 219, before the element that makes 13 of it comes.
    inputs = [[at(130, "l", 6), at(300, "k", 1)], [at(300, "k", 1)], [at(130, "l", 7)]]
    error = refused(step(assigner, target, lateness=500), inputs)
    assert error.message == "a function of the step raised ValueError: thirteen"
    late = window.replace("50, end=150", "100, end=200") if name == "sliding" else window
    assert error.given == f"key 'l', window {late}"


def test_a_stop_iteration_ends_the_run_and_not_the_results() -> None:
    error = refused(step(tumbling(100), agg.into(ending, TOTAL)), [ELEMENTS])
    assert "StopIteration" in error.message
    assert error.given == "key 'l', window TimeWindow(start=100, end=200)"


def refusing(total: int) -> int:
    raise InvalidArgumentError("not this one", given=total)


def test_an_error_of_the_language_stays_what_it_is() -> None:
    with pytest.raises(InvalidArgumentError, match="not this one") as caught:
        run(step(tumbling(100), agg.into(refusing, TOTAL)), [ELEMENTS], column_form, alone=True)
    assert "window_steps.py:" in str(caught.value.where)

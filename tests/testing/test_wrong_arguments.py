"""What harnesses, pictures and the interpreter refuse, with the line of the program and what is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windrow import OutputTag, from_source
from windrow.errors import InvalidArgumentError
from windrow.triggers import CountTrigger
from windrow.windows import GlobalWindows
from windrow_runtime.local import LocalRunner
from windrow_runtime.pictures import Lane, lanes
from windrow_runtime.testing import LiveWindows, PushSource, StreamHarness, TriggerHarness, assign_windows

source = PushSource(int)
highest = from_source(source).key_by(abs).max(abs)
# Any: what a type checker would refuse.
runner: Any = LocalRunner
trigger_harness: Any = TriggerHarness
live_windows: Any = LiveWindows
assigned: Any = assign_windows
drawn: Any = lanes


def harness(*, closed: bool = False) -> Any:
    made = StreamHarness(highest, source, record=True)
    made.process_element(1)
    if closed:
        made.close()
    return made


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a time as a clock": (lambda: runner(clock=5), "the clock of a runner must be a function"),
    "a clock with an argument": (lambda: runner(clock=lambda now: now), r"given:    lambda\(now\)"),
    "a class of triggers": (lambda: trigger_harness(CountTrigger), "an instance, not the class"),
    "windows that do not merge": (lambda: live_windows(GlobalWindows.create()), "expected: a MergingWindowAssigner"),
    "arguments that are swapped": (lambda: assigned(1, GlobalWindows.create()), "expected: a WindowAssigner"),
    "an element after the end": (lambda: harness(closed=True).process_element(1), "the harness is closed"),
    "a watermark after the end": (lambda: harness(closed=True).process_watermark(1), "the harness is closed"),
    "a time after the end": (lambda: harness(closed=True).set_processing_time(1), "the harness is closed"),
    "a text as a tag": (lambda: harness().take_side_output("late"), r"hint:     OutputTag\('late'\)"),
    "a harness as a recording": (lambda: drawn(harness()), "hint:     harness.recording"),
    "a number as a text": (lambda: drawn(harness().recording, values=abs), "given:    1\n"),
    "a lane of another step": (
        lambda: drawn(harness().recording, names={Lane.FIRST: "orders"}),
        "given:    Lane.FIRST\n  expected: lanes of Lane.ELEMENTS, ",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_it_is_refused(mistake: str) -> None:
    call, text = REFUSED[mistake]
    with pytest.raises(InvalidArgumentError, match=text) as caught:
        call()
    assert str(caught.value.where).startswith(f"{__file__}:")


def test_what_was_emitted_can_be_taken_after_the_end() -> None:
    assert harness(closed=True).take_values() == [(1, 1)]
    assert harness(closed=True).take_side_output(OutputTag("nothing", int)) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("advance_watermark_to", "process_watermark"),
        ("processElement", "process_element"),
        ("getOutput", "take_output"),
    ],
)
def test_names_of_other_harnesses_lead_to_windrow_s(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"hint:     {hint}"):
        getattr(harness(), name)
    with pytest.raises(AttributeError, match=r"'StreamHarness' object has no attribute 'nonsense'$"):
        harness().nonsense  # noqa: B018


def test_a_runner_without_start_says_which_has_it() -> None:
    with pytest.raises(AttributeError, match=r"hint:     .*SparkRunner\(\)\.start"):
        runner().start  # noqa: B018

"""Calls in the background, and endings: what an exception from outside does to them. One of these starts Java."""

from __future__ import annotations

import signal
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from windrow.errors import SinkError
from windrow_spark.run import background as module
from windrow_spark.run.background import BackgroundCall, Ending, ctrl_c_kept, in_background, wait_through

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OutsideError(Exception):
    """What a signal's handler raises."""


@pytest.mark.parametrize(
    "with_spark",
    [
        False,
        pytest.param(
            True,
            marks=[pytest.mark.spark, pytest.mark.classic(reason="a session of Connect has no properties of threads")],
        ),
    ],
)
def test_a_call_returns_and_raises_as_if_it_were_made_here(with_spark: bool, request: pytest.FixtureRequest) -> None:
    session: SparkSession | None = request.getfixturevalue("spark") if with_spark else None
    call = BackgroundCall(lambda: threading.current_thread().name, session)
    call.start()
    call.wait()
    assert call.result() == "windrow calls Spark"

    def fail() -> None:
        raise KeyError("mine")

    failing = BackgroundCall(fail, session)
    failing.start()
    failing.wait()
    with pytest.raises(KeyError, match="mine"):
        failing.result()


def test_an_interrupted_start_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise OutsideError

    monkeypatch.setattr(module._Thread, "start", start)
    call = BackgroundCall(lambda: 1)
    with pytest.raises(OutsideError):
        call.start()
    assert call.is_over(0.0)


def test_a_call_goes_on_if_its_caller_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    go, over = threading.Event(), threading.Event()

    def work() -> None:
        assert go.wait(10)
        over.set()

    def wait(call: BackgroundCall[None]) -> None:
        raise OutsideError

    monkeypatch.setattr(BackgroundCall, "wait", wait)
    with pytest.raises(OutsideError):
        in_background(work)
    go.set()
    assert over.wait(10)


@pytest.mark.parametrize("fails", [False, True])
def test_an_ending_ends_and_then_closes_also_if_its_end_fails(fails: bool) -> None:
    # As when the session is gone, and with it all that ran in it.
    calls: list[str] = []

    def end() -> None:
        calls.append("end")
        if fails:
            raise ConnectionError

    ending = Ending(end, lambda: calls.append("close"), "it")
    assert ending.is_pending
    ending.close(OutsideError())
    assert calls == ["end", "close"]
    assert not ending.is_pending


def test_what_does_not_end_in_time_is_closed_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    go, closed = threading.Event(), threading.Event()

    def end() -> None:
        assert go.wait(10)

    ending = Ending(end, closed.set, "pipeline 'p'", seconds=0.05)
    error = OutsideError()
    ending.close(error)
    assert (ending.is_pending, closed.is_set()) == (True, False)
    assert "pipeline 'p' has not ended within" in error.__notes__[0]
    assert error.__notes__[0] in caplog.text
    go.set()
    assert closed.wait(10)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Python drops it in callbacks of weakrefs
def test_a_second_signal_at_any_moment_changes_nothing_of_the_end() -> None:
    """From 20 microseconds to 2 milliseconds behind the first one: before the thread has begun, and as it begins."""
    for turn in range(100):
        calls: list[str] = []
        ending = Ending(partial(calls.append, "end"), partial(calls.append, "close"), "it")
        before = signal.signal(signal.SIGALRM, raise_outside)
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.000_02 * (turn + 1))
                ending.close(OutsideError())
            except OutsideError:
                # The block around ends it.
                ending.close(OutsideError())
            signal.setitimer(signal.ITIMER_REAL, 0)
        except OutsideError:
            pass  # it came behind the end
        finally:
            signal.signal(signal.SIGALRM, before)
        assert wait_through(ending._closed, 10)
        assert calls == ["end", "close"]


def raise_outside(*_: object) -> None:
    raise OutsideError


def test_an_error_of_a_sink_that_closes_is_raised() -> None:
    def close() -> None:
        raise SinkError("it cannot be closed")

    ending = Ending(lambda: None, close, "it")
    with pytest.raises(SinkError):
        ending.close(OutsideError())
    assert not ending.is_pending


def test_ctrl_c_within_a_call_of_java_stays_ctrl_c() -> None:
    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            # As py4j does when it cleans up.
            raise RuntimeError("Gateway must be connected to send cancel cmd.")  # noqa: B904

    with pytest.raises(KeyboardInterrupt), ctrl_c_kept():
        interrupted()
    with pytest.raises(RuntimeError), ctrl_c_kept():
        raise RuntimeError

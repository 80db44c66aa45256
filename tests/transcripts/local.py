"""Runs the steps of transcripts on the interpreter."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.transcripts.checking import Pane
from tests.transcripts.parts import watermark_of
from tests.transcripts.pipeline import panes_of, transcript_stream
from windrow_runtime.operators.windows.pane_operator import PaneOperator
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: values of every type.


class LocalRun:
    """A transcript in a run of the harness."""

    def __init__(self, harness: StreamHarness[Any, Any], asked_per_step: bool) -> None:
        self._harness = harness
        self._asked_per_step = asked_per_step

    def input(self, elements: Sequence[tuple[int, Any]]) -> None:
        """Takes elements, each a timestamp and a value."""
        with self._asked_once() if self._asked_per_step else _as_usual():
            for timestamp, value in elements:
                self._harness.process_element(value, timestamp)

    def watermark(self, ticks: int | str) -> None:
        """Moves the watermark."""
        self._harness.process_watermark(watermark_of(ticks))

    def clock(self, now: int) -> None:
        """Moves the clock."""
        self._harness.set_processing_time(now)

    def take(self) -> list[Pane]:
        """The panes since the last call."""
        return panes_of(self._harness.take_output())

    @contextmanager
    def _asked_once(self) -> Iterator[None]:
        """Has triggers asked when all elements of a step have come, as a runner does that takes bundles."""
        (operator,) = self._harness._execution.operators.values()
        if not isinstance(operator, PaneOperator):
            # A window that fires once fires at its end.
            yield
            return
        touched: dict[tuple[Hashable, Any], None] = {}
        ask = operator._ask

        def remember(key: Hashable, key_state: Any, window: Any, entry: Any, *, closes: bool = False) -> None:
            touched[key, window] = None

        operator._ask = remember  # type: ignore[method-assign]  # for these elements alone
        try:
            yield
        finally:
            operator._ask = ask  # type: ignore[method-assign]
        for key, window in touched:
            key_state = operator.state.keys.get(key)
            entry = None if key_state is None else key_state.windows.get(window)
            if key_state is not None and entry is not None:
                ask(key, key_state, window, entry)
        operator_step = operator.step
        self._harness._execution._flush(operator_step, before=False)


@contextmanager
def _as_usual() -> Iterator[None]:
    yield


@contextmanager
def local_run(case: Mapping[str, Any]) -> Iterator[LocalRun]:
    """A run of a case."""
    source = PushSource[Any]()
    stream = transcript_stream(source, case)
    with StreamHarness(stream, source) as harness:
        harness.set_processing_time(0)
        yield LocalRun(harness, case.get("firing") == "per_step")

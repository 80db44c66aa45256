"""Runs transcripts on the interpreter."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from tests.transcripts.checking import Pane
from tests.transcripts.engine import Clock, Input, Operation, Watermark
from tests.transcripts.parts import watermark_of
from tests.transcripts.pipeline import pane_of, transcript_stream
from windrow import from_source
from windrow_runtime.operators.windows.pane_operator import PaneOperator
from windrow_runtime.testing import PushSource, StreamHarness

# Any in this module: values of every type.


def local_engine(case: Mapping[str, Any], operations: Sequence[Operation]) -> list[list[Pane]]:
    """Runs the operations of a case in a harness."""
    source = PushSource[Any]()
    stream = transcript_stream(from_source(source), case)
    found: list[list[Pane]] = []
    with StreamHarness(stream, source) as harness:
        harness.set_processing_time(0)
        for operation in operations:
            with _asked_once(harness) if case.get("firing") == "per_step" else nullcontext():
                _run(harness, operation)
            found.append([pane_of(result.value, result.timestamp) for result in harness.take_output()])
    return found


def _run(harness: StreamHarness[Any, Any], operation: Operation) -> None:
    if isinstance(operation, Input):
        for timestamp, value in operation.elements:
            harness.process_element(value, timestamp)
    elif isinstance(operation, Watermark):
        harness.process_watermark(watermark_of(operation.to))
    else:
        assert isinstance(operation, Clock)
        harness.set_processing_time(operation.to)


@contextmanager
def _asked_once(harness: StreamHarness[Any, Any]) -> Iterator[None]:
    """Has triggers asked when all elements of a step have come, as a runner does that takes bundles."""
    (operator,) = harness._execution.operators.values()
    if not isinstance(operator, PaneOperator):
        # Its windows fire at their end, and the elements of a step come before or behind that.
        yield
        return
    touched: dict[tuple[Hashable, Any], None] = {}
    ask = operator._ask

    def remember(key: Hashable, key_state: Any, window: Any, entry: Any, *, closes: bool = False) -> None:
        if closes:
            ask(key, key_state, window, entry, closes=True)
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
    harness._execution._flush(operator.step, before=False)

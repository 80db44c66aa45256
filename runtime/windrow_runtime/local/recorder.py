"""Records what goes through the keyed steps of an execution; this module those with windows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from windrow.functions.marked import without_mark
from windrow.panes import ChangeKind, PaneInfo
from windrow.plan import Step, WindowNode
from windrow.time import MIN_TIMESTAMP
from windrow.windows import MergingWindowAssigner
from windrow_runtime.local.event_recorder import EventRecorder
from windrow_runtime.operators.changes import kind_of, value_of
from windrow_runtime.operators.copies import own
from windrow_runtime.operators.errors import USER_ERRORS
from windrow_runtime.operators.operator import KeyedOperator
from windrow_runtime.operators.recording import (
    Moment,
    RecordedElement,
    RecordedPane,
    RecordedWatermark,
    Recording,
    StepRecording,
)
from windrow_runtime.operators.windows.pane_operator import CLOSED

# Any in this module: windows, elements and results of every type.


class Recorder:
    """Makes the recording of an execution, and of those that go on from its snapshots."""

    def __init__(self) -> None:
        self._steps: dict[str, StepRecorder] = {}
        self._processes: dict[str, EventRecorder] = {}

    def of(self, step: Step) -> StepRecorder | EventRecorder:
        """The recorder of a keyed step."""
        if not isinstance(step.node, WindowNode):
            return self._processes.setdefault(step.id, EventRecorder(step))
        return self._steps.setdefault(step.id, StepRecorder(step, step.node))

    @property
    def recording(self) -> Recording:
        """What was recorded so far."""
        return Recording(
            {identifier: recorder.recording for identifier, recorder in self._steps.items()},
            {identifier: recorder.recording for identifier, recorder in self._processes.items()},
        )


@dataclass(slots=True)
class _Shown:
    """The results of one window that its next pane withdraws, with the window and the pane that each came from."""

    own: list[tuple[Any, PaneInfo | None]] = field(default_factory=list)
    absorbed: list[tuple[Any, PaneInfo | None]] = field(default_factory=list)


@dataclass(slots=True)
class _Firing:
    """The pane that is fired just now."""

    key: Hashable
    window: Any
    pane: PaneInfo | None
    first: int  # where its records begin
    results: list[tuple[Any, PaneInfo | None]] = field(default_factory=list)
    is_result: bool = True  # whether it is more than a withdrawal


class StepRecorder:
    """Records one window step. The operator calls it as its witness; its output tells it what is emitted."""

    def __init__(self, step: Step, node: WindowNode) -> None:
        self._step = step
        self._node = node
        self._order = 0
        self._elements: list[RecordedElement] = []
        self._watermarks: list[RecordedWatermark] = []
        self._panes: list[RecordedPane] = []
        # The operator withdraws in a fixed order; the same order here finds the window of each withdrawal.
        self._shown: dict[tuple[Hashable, Any], _Shown] = {}
        self._firing: _Firing | None = None
        self._moment = Moment(order=0, clock=None)

    @property
    def recording(self) -> StepRecording:
        """What was recorded so far."""
        self._finish()
        return StepRecording(
            step=self._step.id,
            name=self._step.node.describe(),
            is_event_time=self._node.assigner.is_event_time,
            is_merging=isinstance(self._node.assigner, MergingWindowAssigner),
            elements=tuple(self._elements),
            watermarks=tuple(self._watermarks),
            panes=tuple(self._panes),
        )

    # What the execution tells

    def process(
        self, operator: KeyedOperator, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> None:
        """Hand elements to the operator one by one, and record what becomes of each."""
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self._begin(operator)
            place = len(self._elements)
            element = RecordedElement(
                number=place + 1,
                key=key,
                value=own(without_mark(value_of(value))),
                timestamp=timestamp,
                moment=self._moment,
                is_late=timestamp is not None and timestamp <= operator.current_watermark,
                is_dropped=False,
                kind=kind_of(value),
            )
            self._elements.append(element)
            before = None
            with suppress(*USER_ERRORS):  # of a key without a hash; the operator says what is wrong with it
                before = _Counted.of(operator, key)
            operator.process_batch((key,), (value,), (timestamp,))
            if before is not None and _Counted.of(operator, key).shows_drop(before):
                self._elements[place] = replace(element, is_dropped=True)

    def advance_watermark(self, operator: KeyedOperator, watermark: int) -> None:
        """Record a move of the watermark, and let the operator follow it."""
        self._begin(operator)
        self._watermarks.append(RecordedWatermark(watermark=watermark, moment=self._moment))
        operator.advance_watermark(watermark)

    def clock(self, operator: KeyedOperator) -> None:
        """Take the time of what follows from the operator's clock."""
        self._finish()
        self._set_moment(operator)

    def emitted(self, value: Any) -> None:
        """Record what the operator emits."""
        firing = self._firing
        if firing is None:
            return
        kind = kind_of(value)
        window, pane = firing.window, firing.pane
        if kind.is_withdrawal:
            shown = self._shown_of(firing.key, firing.window)
            # What merged windows had shown comes first, and never as a part of an update.
            found = shown.absorbed if kind is ChangeKind.DELETE and shown.absorbed else shown.own
            window, pane = found.pop(0) if found else (window, None)
        else:
            firing.results.append((window, pane))
        result = own(value_of(value))
        last = self._panes[-1] if len(self._panes) > firing.first else None
        if last is not None and (last.kind, last.window, last.pane) == (kind, window, pane):
            self._panes[-1] = replace(last, values=(*last.values, result))
            return
        self._panes.append(
            RecordedPane(key=firing.key, window=window, moment=self._moment, values=(result,), pane=pane, kind=kind)
        )

    def _begin(self, operator: KeyedOperator) -> None:
        self._finish()
        self._order += 1
        self._set_moment(operator)

    def _set_moment(self, operator: KeyedOperator) -> None:
        now = operator.current_processing_time
        self._moment = Moment(order=self._order, clock=None if now == MIN_TIMESTAMP else now)

    # What the operator tells, as windrow_runtime.operators.recording.Witness has it

    def fires(self, key: Hashable, window: Any, pane: PaneInfo | None) -> None:
        """A pane comes out."""
        self._finish()
        self._firing = _Firing(key, window, pane, len(self._panes))

    def withdraws(self, key: Hashable, window: Any) -> None:
        """What a window had output is withdrawn."""
        self._finish()
        self._firing = _Firing(key, window, None, len(self._panes), is_result=False)

    def merges(self, key: Hashable, sources: Sequence[Any], into: Any) -> None:
        """Windows become one, which takes over what they had shown."""
        self._finish()
        merged = _Shown()
        for source in sources:
            shown = self._shown.pop((key, source), None)
            if shown is None:
                continue
            if source == into:
                merged.own = shown.own
            else:
                merged.absorbed += shown.own
            merged.absorbed += shown.absorbed
        self._shown[key, into] = merged

    def _shown_of(self, key: Hashable, window: Any) -> _Shown:
        return self._shown.setdefault((key, window), _Shown())

    def _finish(self) -> None:
        """Complete the pane that was fired last."""
        firing, self._firing = self._firing, None
        if firing is None:
            return
        self._shown[firing.key, firing.window] = _Shown(firing.results)
        if firing.is_result and not firing.results:
            self._panes.append(
                RecordedPane(
                    key=firing.key,
                    window=firing.window,
                    moment=self._moment,
                    values=(),
                    pane=firing.pane,
                    kind=ChangeKind.INSERT,
                )
            )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What an operator has counted that shows whether a window took an element."""

    late: int
    closed: int
    arrivals: int  # those of the key

    @classmethod
    def of(cls, operator: KeyedOperator, key: Hashable) -> _Counted:
        held = operator.state.keys.get(key)
        arrivals = 0 if held is None else held.arrivals
        return cls(operator.metrics.late, operator.metrics.totals[CLOSED], arrivals)

    def shows_drop(self, before: _Counted) -> bool:
        """Returns whether no window took the element that came behind ``before``."""
        return self.late > before.late or (self.closed > before.closed and self.arrivals == before.arrivals)

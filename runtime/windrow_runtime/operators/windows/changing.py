"""Runs windows downstream of windows that retract: withdrawn elements are taken out again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from windrow.panes import ChangeKind
from windrow.plan import Step, WindowNode
from windrow_runtime.operators.changes import as_change, runs_of
from windrow_runtime.operators.windows.change_contents import changing_contents_for
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_runtime.operators.windows.pane_operator import PaneOperator

# Any in this module: windows and elements of every type pass through.


class ChangingWindowOperator(WindowOperator):
    """The general operator of windows that withdrawals reach."""

    form = "general operator of changes"

    def __init__(self, step: Step, node: WindowNode) -> None:
        super().__init__(step, node)
        self.contents = self._changing = changing_contents_for(node.function, node.input.element_type)
        self._kind = ChangeKind.INSERT

    def process_batch(self, keys: Sequence[Hashable], values: Sequence[Any], timestamps: Sequence[int | None]) -> None:
        for kind, places, unwrapped in runs_of(values):
            self._kind, self._changing.withdraws = kind, kind.is_withdrawal
            super().process_batch(keys[places], unwrapped, timestamps[places])

    def _late(self, value: Any, timestamp: int | None) -> None:
        super()._late(as_change(self._kind, value), timestamp)


class ChangingPaneOperator(ChangingWindowOperator, PaneOperator):
    """The operator of panes of windows that withdrawals reach."""

    form = "panes of changes"

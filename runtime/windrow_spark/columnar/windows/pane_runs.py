"""Cuts the elements of keyed windows into runs, each of which ends with one that fires a pane, or with the last one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from windrow.triggers.composable import AfterCount, AfterProcessingTime
from windrow.windows.spec import Condition, Panes
from windrow_spark.columnar import Ints, Mask
from windrow_spark.columnar.rows.groups import Groups
from windrow_spark.columnar.windows.pane_rows import UNSET

_FAR: Final = 1 << 62
"""No keyed window gets this many elements."""


class PaneRuns:
    """Cuts the elements of keyed windows into runs, in order of keyed windows."""

    def __init__(self, arrived: Groups, fires: Mask) -> None:
        """Takes the elements by keyed window, and marks of those that fire a pane."""
        order = arrived.order
        keyed_windows, closing = arrived.ids[order], fires[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = closing[:-1] | (keyed_windows[1:] != keyed_windows[:-1])
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(order)) - 1
        self.of_elements = np.empty(len(order), np.int64)
        self.of_elements[order] = np.cumsum(begins) - 1
        self.keyed_windows = keyed_windows[firsts]
        self.first_elements, self.last_elements = order[firsts], order[lasts]
        self.fires = closing[lasts]
        self.are_last = np.append(self.keyed_windows[1:] != self.keyed_windows[:-1], True)  # of their keyed windows


class ActiveConditions:
    """Tells what keyed windows wait for: the early condition or the late one."""

    def __init__(self, rules: Panes, now: int, late: Mask) -> None:
        def by_condition(number: Callable[[Condition | None], int]) -> Ints:
            """Returns a number for each keyed window, by its condition."""
            return np.where(late & rules.at_end, number(rules.late), number(rules.early))

        def every(condition: Condition | None) -> int:
            """Returns after how many elements a condition fires a pane: 1 if its time is up."""
            if isinstance(condition, AfterCount):
                return condition.count
            return 1 if target(condition) <= now else _FAR

        def target(condition: Condition | None) -> int:
            return condition.target_of(now) if isinstance(condition, AfterProcessingTime) else UNSET

        self.every = by_condition(every)
        self.targets = by_condition(target)
        self.counts = by_condition(lambda condition: isinstance(condition, AfterCount)) > 0
        self.is_timed = by_condition(lambda condition: isinstance(condition, AfterProcessingTime)) > 0
        # Until the first late pane both conditions have observed the same elements, so the earlier target has a timer;
        # from then on the late one alone begins anew.
        self.first_target = min(target(rules.early), target(rules.late))

"""Decides which steps run on columns, and in which form."""

from __future__ import annotations

from typing import TypeAlias

from windrow.functions.marked import JoinPairs
from windrow.plan import Step, TimedJoinNode, WindowNode
from windrow_runtime.columnar.forms.columnar_form import ColumnarForm, columnar_form
from windrow_runtime.columnar.forms.join_form import JoinForm, join_form
from windrow_runtime.columnar.forms.route import CheckSource, ResultsOf, no_results
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology

OnColumns: TypeAlias = ColumnarForm | JoinForm
"""The form of a step that runs on columns."""

Form: TypeAlias = OnColumns | DeclinedError
"""The form of a step on columns, or the reason why it has none."""


def step_form(
    topology: Topology, step: Step, check_source: CheckSource, results_of: ResultsOf = no_results
) -> OnColumns:
    """The form of a keyed step on columns; declined where it has none."""
    node = step.node
    if isinstance(node, TimedJoinNode) or (
        isinstance(node, WindowNode) and isinstance(node.function.process, JoinPairs)
    ):
        return join_form(topology, step, check_source, results_of)
    return columnar_form(topology, step, check_source, results_of)

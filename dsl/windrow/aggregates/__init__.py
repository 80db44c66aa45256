"""Defines declared aggregates: ready-made aggregate functions that say what they compute.

Some have the names of Python's own functions, so import the module: ``from windrow import aggregates as agg``.
"""

from typing import TYPE_CHECKING

from windrow.aggregates.arithmetic import (
    count,
    mean,
    stddev,
    stddev_pop,
    stddev_samp,
    sum,  # noqa: A004  the field's name for it, here and below
    var_pop,
    var_samp,
    variance,
)
from windrow.aggregates.arrival import collect_list, first, last
from windrow.aggregates.combined import combine, into
from windrow.aggregates.declared import Declaration, DeclaredAggregate
from windrow.aggregates.distinct import collect_set, count_distinct
from windrow.aggregates.facts import key, window_end, window_start
from windrow.aggregates.order import (
    max,  # noqa: A004
    max_by,
    min,  # noqa: A004
    min_by,
    top_k,
)
from windrow.aggregates.sketches import approx_count_distinct, approx_quantile, approx_quantiles
from windrow.calls.other_names import unknown_name
from windrow.expressions.node import Expression
from windrow.expressions.tracing import Opaque, recognise

__all__ = [
    "Declaration",
    "DeclaredAggregate",
    "Expression",
    "Opaque",
    "approx_count_distinct",
    "approx_quantile",
    "approx_quantiles",
    "collect_list",
    "collect_set",
    "combine",
    "count",
    "count_distinct",
    "first",
    "into",
    "key",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "recognise",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
    "window_end",
    "window_start",
]

if not TYPE_CHECKING:  # type checkers refuse a name that does not exist

    def __getattr__(name):
        """Says what to write instead of a name of another module, or of other systems."""
        raise unknown_name(__name__, name)

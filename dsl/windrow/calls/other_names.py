"""Says what to write in windrow instead of calls that other systems have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from windrow.errors import no_attribute

__all__ = ["unknown_call"]


def unknown_call(stage: object, name: str, own: Mapping[str, str]) -> AttributeError:
    """Makes the error for a call that a stage does not have, with a hint where another system has it.

    Args:
        stage: The stage.
        name: The name of the call.
        own: What to write instead on stages of this class, by names.
    """
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    hints = {**_OTHER_NAMES, **own}
    if name not in hints and snake_case != name and not name.startswith("_"):
        if snake_case in dir(type(stage)):
            hints[name] = f"{snake_case}(...)"
        elif snake_case in hints:
            hints[name] = hints[snake_case]
    return no_attribute(stage, name, hints)


_KEY_BY: Final = "key_by(lambda element: ...) of a stream"
_MAP: Final = "map(lambda element: ...) of a stream, which makes the whole record"
_PROCESS: Final = "key_by(...).process(KeyedProcessFunction), or stateful_map(...) of a keyed stream"
_DISTINCT: Final = "key_by(...).distinct(within=...), or first(within=...)"
_SHUFFLE: Final = "nothing: windrow divides the work by key, and SparkRunner(partitions=...) says into how many parts"
_OTHER_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Filter", "where"), "filter(lambda element: ...)"),
    **dict.fromkeys(("FlatMap", "ParDo", "flat_map_values", "explode"), "flat_map(lambda element: [...])"),
    **dict.fromkeys(("Flatten", "merge", "union_all"), "union(other)"),
    **dict.fromkeys(("CoGroupByKey", "cogroup"), "stream.co_group(other).where(...).equal_to(...).window(...)"),
    **dict.fromkeys(("CombinePerKey", "CombineGlobally", "agg"), "window(assigner).aggregate(agg.into(...))"),
    **dict.fromkeys(("GroupByKey", "group_by", "group_by_key", "groupby", "select_key"), _KEY_BY),
    **dict.fromkeys(("Map", "map_values", "project", "select", "select_expr", "drop", "with_column"), _MAP),
    **dict.fromkeys(("with_columns", "with_column_renamed"), _MAP),
    **dict.fromkeys(
        ("WindowInto", "windowed_by", "time_window"), "key_by(...).window(TumblingEventTimeWindows.of(...))"
    ),
    **dict.fromkeys(("tumbling_window", "hopping_window", "sliding_window"), "key_by(...).window(assigner)"),
    **dict.fromkeys(("session_window",), "key_by(...).window(EventTimeSessionWindows.with_gap(...))"),
    **dict.fromkeys(("to_table",), "key_by(...).latest()"),
    **dict.fromkeys(("to_stream",), "changelog(lambda kind, row: ...), which makes records of the changes of a table"),
    **dict.fromkeys(("suppress",), "nothing: windows fire once, at their end, unless a trigger says otherwise"),
    **dict.fromkeys(("left_outer_join", "left_outer"), "left_join(other), or interval_join(...).between(...).left()"),
    **dict.fromkeys(("right_outer_join",), "right_join(other), or interval_join(...).between(...).right()"),
    **dict.fromkeys(("full_outer_join", "outer_join"), "full_join(other), or interval_join(...).between(...).full()"),
    **dict.fromkeys(("drop_duplicates", "drop_duplicates_within_watermark", "deduplicate"), _DISTINCT),
    **dict.fromkeys(("with_watermark",), "assign_timestamps_and_watermarks(strategy, timestamp=...)"),
    **dict.fromkeys(("map_in_pandas", "map_in_arrow", "map_partitions"), "map_batches(function)"),
    **dict.fromkeys(("map_groups_with_state", "flat_map_groups_with_state", "apply_in_pandas_with_state"), _PROCESS),
    **dict.fromkeys(("transform_with_state", "transform_with_state_in_pandas", "transform_values"), _PROCESS),
    **dict.fromkeys(("foreach", "for_each", "foreach_batch"), "sink_to(FunctionSink(function))"),
    **dict.fromkeys(("to", "to_topic", "through"), "sink_to(KafkaSink(...))"),
    **dict.fromkeys(("peek", "inspect"), "map(function), whose function returns the element; print() shows elements"),
    **dict.fromkeys(("branch", "split"), "filter(...) for each branch, or process(...) with side outputs"),
    **dict.fromkeys(("rebalance", "rescale", "reshuffle", "Reshuffle", "shuffle", "repartition"), _SHUFFLE),
    **dict.fromkeys(("set_parallelism", "set_max_parallelism"), _SHUFFLE),
}
"""What to write instead of calls of other systems; a name in snake case also stands for that in camel case."""

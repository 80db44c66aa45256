"""Says what to write in windrow instead of calls that other systems have."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

from windrow.calls.next_calls import next_calls
from windrow.errors import no_attribute, snake_case
from windrow.facts.code import imports_name


def unknown_call(stage: object, name: str, own: Mapping[str, str]) -> AttributeError:
    """Makes the error for a call that a stage does not have, with a hint where another system has it.

    Args:
        stage: The stage.
        name: The name of the call.
        own: What to write instead on stages of this class, by names.
    """
    hints = {**_OTHER_NAMES, **own}
    snake = snake_case(name)
    if not {name, snake} & hints.keys() and not name.startswith("_") and not hasattr(type(stage), snake):
        ways = next_calls(type(stage), snake)  # type: ignore[arg-type]  # as in calls.attributes.slots_of
        hints |= {} if ways is None else {name: ways}
    return no_attribute(stage, name, hints)


def unknown_name(module: str, name: str) -> AttributeError | ImportError:
    """Makes the error for a name that a public module does not have; the ``__getattr__`` of the module calls this.

    Args:
        module: The name of the module.
        name: The name that was asked for.

    Returns:
        An ``ImportError`` where a hint is known and an import asks, since ``from module import name`` hides the text of
        others. ``hasattr`` and ``getattr`` with a default need an ``AttributeError``.
    """
    text = f"module {module!r} has no name {name!r}"
    hint = _OTHER_CLASSES.get(name)
    # Python asks for names of submodules too, and needs an AttributeError there.
    if name != snake_case(name):
        public = [each for each in sorted(sys.modules) if re.fullmatch(r"windrow(_runtime)?(\.[a-z]\w*)?", each)]
        for each in public:
            for own in (name, snake_case(name)):
                if own in getattr(sys.modules[each], "__all__", ()):
                    hint = hint or f"from {each} import {own}"
    if hint is None:
        return AttributeError(text)
    text = f"{text}\n  hint:     {hint}"
    is_import = imports_name(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads files
    return ImportError(text, name=module) if is_import else AttributeError(text)


_KEY_BY: Final = "key_by(lambda element: ...) of a stream"
_MAP: Final = "map(lambda element: ...) of a stream, which makes the whole record"
_PROCESS: Final = "key_by(...).process(KeyedProcessFunction), or stateful_map(...) of a keyed stream"
_DISTINCT: Final = "key_by(...).distinct(within=...), or first(within=...)"
_SHUFFLE: Final = "nothing: windrow divides the work by key, and SparkRunner(partitions=...) says into how many parts"
_OTHER_NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("where",), "filter(lambda element: ...)"),
    **dict.fromkeys(("par_do", "flat_map_values", "explode"), "flat_map(lambda element: [...])"),
    **dict.fromkeys(("flatten", "merge", "union_all"), "union(other)"),
    **dict.fromkeys(("co_group_by_key", "cogroup"), "stream.co_group(other).where(...).equal_to(...).window(...)"),
    **dict.fromkeys(("combine_per_key", "combine_globally", "agg"), "window(assigner).aggregate(agg.into(...))"),
    **dict.fromkeys(("group_by", "group_by_key", "groupby", "select_key"), _KEY_BY),
    **dict.fromkeys(("map_values", "project", "select", "select_expr", "drop", "with_column"), _MAP),
    **dict.fromkeys(("with_columns", "with_column_renamed"), _MAP),
    **dict.fromkeys(
        ("window_into", "windowed_by", "time_window"), "key_by(...).window(TumblingEventTimeWindows.of(...))"
    ),
    **dict.fromkeys(("tumbling_window", "hopping_window", "sliding_window"), "key_by(...).window(assigner)"),
    **dict.fromkeys(("session_window",), "key_by(...).window(EventTimeSessionWindows.with_gap(...))"),
    **dict.fromkeys(("to_table",), "key_by(...).latest()"),
    **dict.fromkeys(("to_stream",), "changelog(lambda kind, row: ...), which makes records of the changes of a table"),
    **dict.fromkeys(("suppress",), "nothing: windows fire once, at their end, unless a trigger says otherwise"),
    **dict.fromkeys(("left_outer_join", "left_outer"), "left_join(other), or interval_join(...).between(...).left()"),
    "left_interval_join": "interval_join(...).between(...).left()",
    "flat_select": "apply(lambda elements: [...]), and flat_map(lambda results: results) of that",
    **dict.fromkeys(("right_outer_join",), "right_join(other), or interval_join(...).between(...).right()"),
    **dict.fromkeys(("full_outer_join", "outer_join"), "full_join(other), or interval_join(...).between(...).full()"),
    **dict.fromkeys(("drop_duplicates", "drop_duplicates_within_watermark", "deduplicate", "dedup"), _DISTINCT),
    **dict.fromkeys(("order_by", "sort", "sort_by"), "key_by(...).in_event_time_order()"),
    **dict.fromkeys(
        ("with_watermark", "with_timestamp_assigner"), "assign_timestamps_and_watermarks(strategy, timestamp=...)"
    ),
    **dict.fromkeys(("map_in_pandas", "map_in_arrow", "map_partitions"), "map_batches(function)"),
    **dict.fromkeys(("map_groups_with_state", "flat_map_groups_with_state", "apply_in_pandas_with_state"), _PROCESS),
    **dict.fromkeys(
        ("transform_with_state", "transform_with_state_in_pandas", "transform_values", "map_with_state"), _PROCESS
    ),
    **dict.fromkeys(("foreach", "for_each", "foreach_batch"), "sink_to(FunctionSink(function))"),
    **dict.fromkeys(("to", "to_topic", "through"), "sink_to(KafkaSink(...))"),
    **dict.fromkeys(("process_async", "async_map", "async_wait"), "map_async(function, capacity=...)"),
    **dict.fromkeys(("side_output", "side_outputs"), "get_side_output(tag)"),
    **dict.fromkeys(("grace", "with_grace", "with_allowed_lateness"), "allowed_lateness(timedelta(...)) of windows"),
    **dict.fromkeys(("peek", "inspect"), "map(function), whose function returns the element; print() shows elements"),
    **dict.fromkeys(("branch", "split"), "filter(...) for each branch, or process(...) with side outputs"),
    **dict.fromkeys(("rebalance", "rescale", "reshuffle", "shuffle", "repartition"), _SHUFFLE),
    **dict.fromkeys(("set_parallelism", "set_max_parallelism"), _SHUFFLE),
}
"""What to write instead of calls of other systems; a name in snake case also stands for that in camel case."""

_PIPELINE: Final = "from windrow import Pipeline, from_source, whose pipelines LocalRunner and SparkRunner run"
_TUMBLING: Final = "from windrow.windows import TumblingEventTimeWindows"
_OTHER_CLASSES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("KTable", "GlobalKTable"), "stream.key_by(...).latest() makes a table of a stream"),
    **dict.fromkeys(("KStream", "PCollection", "DataSet"), "from windrow import DataStream"),
    **dict.fromkeys(("StreamsBuilder", "StreamExecutionEnvironment", "SparkSession", "Topology"), _PIPELINE),
    **dict.fromkeys(("FixedWindows", "TimeWindows", "TumblingWindows", "TumbleWindow"), _TUMBLING),
    **dict.fromkeys(("SlidingWindows", "HoppingWindows"), "from windrow.windows import SlidingEventTimeWindows"),
    **dict.fromkeys(("Sessions", "SessionWindow"), "from windrow.windows import EventTimeSessionWindows"),
    **dict.fromkeys(("CEP", "PatternSelectFunction"), "key_by(...).pattern(Pattern.begin(...)), of windrow.patterns"),
    **{each: f"from windrow.kafka import {each}" for each in ("KafkaRecordSource", "KafkaSink", "KafkaSource")},
    "JdbcSink": "from windrow.sinks import DatabaseSink",
    "PrintSink": "from windrow.sinks import ConsoleSink, or stream.print()",
    **dict.fromkeys(("Duration", "Time"), "from datetime import timedelta"),
    **dict.fromkeys(("Create", "from_elements", "from_iterable", "from_list"), "from windrow import from_collection"),
    **dict.fromkeys(
        ("from_files", "read_csv", "read_json", "read_parquet"), "from_source(JsonFileSource(...)), or such"
    ),
    **dict.fromkeys(("from_kafka", "read_kafka"), "from_source(KafkaSource(...)), of windrow.kafka"),
    **dict.fromkeys(("avg", "average"), "mean(selector)"),
    **dict.fromkeys(("percentile", "percentile_approx", "quantile"), "approx_quantile(selector, ...)"),
    **dict.fromkeys(("latest", "last_value"), "last(selector) to arrive, or max_by(time, selector)"),
    "LocalRunner": "from windrow_runtime.local import LocalRunner",
    "SparkRunner": "from windrow_runtime.spark import SparkRunner",
}
"""What to write instead of classes and functions of other systems."""

"""Wherever a run is cut by a snapshot and a restore, it gives what it would have given uncut.

The pipelines are drawn at random in the format of the conformance cases, which can say every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.budget import examples
from tests.conformance.cases import Fields, Json
from tests.conformance.elements import Element
from tests.conformance.engines import ClockStep, ElementStep, RestoreStep, Script, Step, WatermarkStep
from tests.conformance.local_engine import LocalEngine
from tests.conformance.pipeline import Pipeline
from windrow.errors import WindrowError

small = st.integers(1, 12)


def spec(kind: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Json]]:
    return st.fixed_dictionaries({"type": st.just(kind), **parts})


# Any in this module: JSON of every shape.
def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            spec("purging", inner=inner),
            *(
                spec(
                    kind, inner=inner, timeout_ms=small, reset_on_element=st.booleans(), clear_on_timeout=st.booleans()
                )
                for kind in ("event_timeout", "processing_timeout")
            ),
        ),
        max_leaves=2,
    )


merging_triggers = nested(
    st.one_of(
        spec("event_time"),
        spec("processing_time"),
        spec("count", max=st.integers(1, 4)),
        spec("continuous_event_time", interval_ms=small),
        spec("continuous_processing_time", interval_ms=small),
        spec("end_of_stream"),
    )
)
triggers = st.one_of(merging_triggers, nested(spec("delta", threshold=st.integers(0, 6))))
# None of them evicts the newest element: the functions of the cases need one.
evictors = st.one_of(
    st.none(),
    spec("count", max=st.integers(1, 4), after=st.booleans()),
    spec("time", window_ms=st.integers(1, 10), after=st.booleans()),
    spec("delta", threshold=st.integers(1, 6), after=st.booleans()),
)
gaps: Json = {"a": {"default": 4, "3": 9}, "b": {"default": 7}}
fixed_windows = st.one_of(
    spec("tumbling_event_time", size_ms=small, stagger=st.sampled_from(["aligned", "natural"])),
    spec("tumbling_processing_time", size_ms=small, stagger=st.sampled_from(["aligned", "natural"])),
    spec("sliding_event_time", size_ms=small, slide_ms=small),
    spec("sliding_processing_time", size_ms=small, slide_ms=small),
    spec("global"),
)
sessions = st.one_of(
    spec("event_time_session", gap_ms=small),
    spec("processing_time_session", gap_ms=small),
    spec("dynamic_event_time_session", gaps=st.just(gaps)),
    spec("dynamic_processing_time_session", gaps=st.just(gaps)),
    spec("point_session", gap_ms=small, point_value=st.just(3)),
)
functions = ["reduce_sum", "aggregate_mean", "process_sum", "process_list", "process_each", "process_side"]


def pipelines(
    assigners: st.SearchStrategy[Any], triggers: st.SearchStrategy[Any], functions: Sequence[str]
) -> st.SearchStrategy[dict[str, Json]]:
    return st.fixed_dictionaries(
        {
            "keyed": st.just(True),
            "assigner": assigners,
            "trigger": st.none() | triggers,
            "evictor": evictors,
            "allowed_lateness_ms": st.integers(0, 8),
            "side_output_late": st.booleans(),
            "function": st.fixed_dictionaries({"type": st.sampled_from(functions), "with_window": st.booleans()}),
        }
    )


any_pipeline = st.one_of(
    pipelines(fixed_windows, triggers, [*functions, "process_firing_index"]),
    pipelines(sessions, merging_triggers, functions),
)
# An element (key, value, timestamp), or an advance of the watermark or of the clock.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 60)),
        st.tuples(st.just("element"), st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 60)),
        st.tuples(st.just("watermark"), st.just(""), st.just(0), st.integers(0, 20)),
        st.tuples(st.just("processing_time"), st.just(""), st.just(0), st.integers(0, 12)),
    ),
    min_size=8,
    max_size=25,
)
Drawn = tuple[str, str, int, int]


def observe(pipeline: dict[str, Json], steps: list[Drawn], cuts: set[int]) -> list[str]:
    """What each step caused; a step that fails ends the run."""
    script = list(scripted(steps, cuts))
    read = Pipeline.of(Fields(pipeline, "pipeline"), note_calls=True)
    (told,) = LocalEngine().run([Script(read, tuple(script))])
    assert told.unbuilt is None
    seen: list[str] = []
    for step, observed in zip(script, told.steps, strict=False):
        assert observed.error is None or isinstance(observed.error, WindrowError)
        if observed.error is not None or not isinstance(step, RestoreStep):
            seen.append(repr(observed))
    return seen


def scripted(steps: list[Drawn], cuts: set[int]) -> Iterator[Step]:
    times = {"watermark": 0, "processing_time": 0}
    yield ClockStep(0)
    for number, (op, key, value, time) in enumerate(steps):
        if number in cuts:
            yield RestoreStep()
        if op == "element":
            yield ElementStep(Element.of(key, value), time)
            continue
        times[op] += time
        yield WatermarkStep(times[op]) if op == "watermark" else ClockStep(times[op])
    yield ClockStep(1000)
    yield WatermarkStep(1000)


@examples(30)
@given(pipeline=any_pipeline, steps=steps, cuts=st.sets(st.integers(0, 24), max_size=6))
def test_a_cut_changes_nothing(pipeline: dict[str, Json], steps: list[Drawn], cuts: set[int]) -> None:
    assert observe(pipeline, steps, cuts) == observe(pipeline, steps, set())


@given(pipeline=any_pipeline, steps=steps)
def test_nothing_is_left_of_windows_that_were_cleaned_up(pipeline: dict[str, Json], steps: list[Drawn]) -> None:
    """Once both times are past every cleanup time, only the global window holds anything."""
    assume(pipeline["assigner"] != {"type": "global"})
    seen = observe(pipeline, steps, set())
    assert "StateCounts(contents=0, event_timers=0, processing_timers=0)" in seen[-1]

"""Streams of rules: what the builder makes of them, and what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.records import millis
from windrow import OutputTag, Pipeline, from_collection
from windrow.errors import InvalidArgumentError, PlanError
from windrow.functions import BroadcastContext, KeyedBroadcastProcessFunction, ReadOnlyContext
from windrow.plan import BroadcastProcessNode
from windrow.sinks import CollectSink
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.watermarks import WatermarkStrategy
from windrow.windows import TumblingEventTimeWindows

LIMITS = MapStateDescriptor("limits", str, int)
NAMES = MapStateDescriptor("names", int, str)
NONE = WatermarkStrategy[Any].no_watermarks()
words = from_collection(["a", "bb"])
keyed = words.key_by(len)
rules = from_collection([1, 2])


class Plain(KeyedBroadcastProcessFunction[int, str, int, float]):
    aside = OutputTag("aside", str)
    seen = ListStateDescriptor[int]("seen")

    def process_element(self, value: str, context: ReadOnlyContext[int]) -> list[float]:
        return [1.0]

    def process_broadcast_element(self, value: int, context: BroadcastContext[int, float]) -> list[float]:
        return []


def judged(function: KeyedBroadcastProcessFunction[int, str, int, Any] | None = None) -> Any:
    # Any: some tests ask for what does not exist.
    return keyed.connect(rules.broadcast(LIMITS, NAMES)).process(function or Plain(), name="judge")


def test_explain_shows_both_streams() -> None:
    pipeline = Pipeline("rules", judged().sink_to(CollectSink[float]("judged")))
    assert pipeline.explain().splitlines() == [
        "pipeline rules",
        "  1 source                            collection of 2  : str",
        "  2 key_by                   <- 1     len  : str",
        "  3 source                            collection of 2  : int",
        "  4 broadcast                <- 3     'limits', 'names'  : int",
        "  5 broadcast_process judge  <- 2, 4  Plain  : float",
        "  6 sink                     <- 5     collect judged",
    ]
    assert isinstance(pickle.loads(pickle.dumps(pipeline.steps[2].node)), type(pipeline.steps[2].node))


def test_stages_show_what_they_are() -> None:
    stream = rules.broadcast(LIMITS)
    assert repr(stream).startswith("BroadcastStream(broadcast: int, ")
    assert repr(keyed.connect(stream)).startswith("BroadcastConnectedStream(KeyedStream(key_by: str, ")


def test_one_stream_of_rules_serves_several_steps() -> None:
    stream = rules.broadcast(LIMITS)
    made = [keyed.connect(stream).process(Plain()) for _ in range(2)]
    pipeline = Pipeline("twice", *(each.sink_to(CollectSink[float]()) for each in made))
    assert [step.node.kind for step in pipeline.steps].count("broadcast") == 1
    nodes = [step.node for step in pipeline.steps if isinstance(step.node, BroadcastProcessNode)]
    assert nodes[0].rules is nodes[1].rules


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("no map", lambda: rules.broadcast(ValueStateDescriptor("one")), "rules are kept in maps"),  # type: ignore[arg-type]
    ("a name twice", lambda: rules.broadcast(LIMITS, MapStateDescriptor("limits")), "two maps of rules have one name"),
    (
        "a time to live",
        lambda: rules.broadcast(MapStateDescriptor("limits", ttl=StateTtlConfig(millis(5)))),
        "rules do not expire",
    ),
    ("no keys", lambda: words.connect(rules.broadcast(LIMITS)), "call key_by on the stream that the rules are for"),  # type: ignore[arg-type]
    ("a plain stream", lambda: keyed.connect(rules), "connect on a keyed stream needs another keyed stream"),  # type: ignore[call-overload]
    ("a class", lambda: keyed.connect(rules.broadcast(LIMITS)).process(Plain), r"Plain\(\)"),  # type: ignore[arg-type]
    ("a function", lambda: keyed.connect(rules.broadcast(LIMITS)).process(len), "process function of both"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_a_wrong_argument_is_refused_where_it_stands(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        call()
    assert "test_broadcast.py" in str(raised.value)


class Texts(Plain):
    def process_broadcast_element(self, value: int, context: BroadcastContext[int, float]) -> str:  # type: ignore[override]
        return "not records"


class TwoStates(Plain):
    also_seen = ValueStateDescriptor("seen", int)


class Unrun(Plain):
    def close(self) -> Any:
        yield


def test_the_plan_looks_at_the_function() -> None:
    for function, message in (
        (Texts(), "process_broadcast_element returns str, whose items would be taken for records"),
        (TwoStates(), "has two descriptors of the name 'seen'"),
        (Unrun(), "Unrun.close is a generator"),
    ):
        with pytest.raises(PlanError, match=message):
            Pipeline("faulty", judged(function).sink_to(CollectSink[float]()))


def test_a_side_output_is_found_in_the_function() -> None:
    stream = judged()
    Pipeline("aside", stream.get_side_output(Plain.aside).sink_to(CollectSink[str]()))
    other = OutputTag("aside", int)
    with pytest.raises(PlanError, match="the side output 'aside' is taken as int, and is of str"):
        Pipeline("aside", stream.get_side_output(other).sink_to(CollectSink[int]()))


def test_withdrawals_are_refused_on_both_streams() -> None:
    counted = (
        rules.assign_timestamps_and_watermarks(NONE, timestamp=lambda rule: rule)
        .key_by(lambda rule: rule)
        .window(TumblingEventTimeWindows.of(millis(5)))
        .retracting()
        .reduce(min)
    )
    for stream in (
        keyed.connect(counted.broadcast(LIMITS)).process(Plain()),
        counted.map(str).key_by(len).connect(rules.broadcast(LIMITS)).process(Plain()),
    ):
        with pytest.raises(PlanError, match="takes elements for good"):
            Pipeline("changes", stream.sink_to(CollectSink[float]()))

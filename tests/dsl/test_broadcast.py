"""Streams of rules: what the builder makes of them, and what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.dsl.plans import SECONDS, fault_of, in_time, plan, refusal
from tests.support.records import millis
from windrow import OutputTag, from_collection
from windrow.functions import BroadcastContext, KeyedBroadcastProcessFunction, ReadOnlyContext
from windrow.plan import BroadcastProcessNode
from windrow.sinks import CollectSink
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor

LIMITS = MapStateDescriptor("limits", str, int)
NAMES = MapStateDescriptor("names", int, str)
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
    pipeline = plan(judged().sink_to(CollectSink[float]("judged")), name="rules")
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
    pipeline = plan(*(keyed.connect(stream).process(Plain()) for _ in range(2)))
    assert [step.node.kind for step in pipeline.steps].count("broadcast") == 1
    nodes = [step.node for step in pipeline.steps if isinstance(step.node, BroadcastProcessNode)]
    assert nodes[0].rules is nodes[1].rules


EXPIRING = MapStateDescriptor[str, int]("limits", ttl=StateTtlConfig(millis(5)))
REFUSED: dict[str, Callable[[], object]] = {
    "rules are kept in maps": lambda: rules.broadcast(ValueStateDescriptor("one")),  # type: ignore[arg-type]
    "two maps of rules have one name": lambda: rules.broadcast(LIMITS, MapStateDescriptor("limits")),
    "rules do not expire": lambda: rules.broadcast(EXPIRING),
    "call key_by on the stream that the rules are for": lambda: words.connect(rules.broadcast(LIMITS)),  # type: ignore[arg-type]
    "connect on a keyed stream needs another keyed stream": lambda: keyed.connect(rules),  # type: ignore[call-overload]
    "Plain()": lambda: keyed.connect(rules.broadcast(LIMITS)).process(Plain),  # type: ignore[arg-type]
    "process function of both": lambda: keyed.connect(rules.broadcast(LIMITS)).process(len),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_argument_is_refused_where_it_stands(message: str) -> None:
    error = refusal(REFUSED[message])
    assert message in str(error)
    assert str(error.where).startswith(f"{__file__}:")


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
        assert message in fault_of(judged(function)).message


def test_a_side_output_is_found_in_the_function() -> None:
    stream = judged()
    plan(stream.get_side_output(Plain.aside))
    other = stream.get_side_output(OutputTag("aside", int))
    assert fault_of(other).message == "the side output 'aside' is taken as int, and is of str"


def test_withdrawals_are_refused_on_both_streams() -> None:
    stamped = in_time([1, 2], lambda rule: rule)
    counted = stamped.key_by(lambda rule: rule).window(SECONDS).retracting().reduce(min)
    for stream in (
        keyed.connect(counted.broadcast(LIMITS)).process(Plain()),
        counted.map(str).key_by(len).connect(rules.broadcast(LIMITS)).process(Plain()),
    ):
        assert "takes elements for good" in fault_of(stream).message

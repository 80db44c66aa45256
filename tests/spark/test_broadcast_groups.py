"""Groups of keys with rules, without Spark: tiny pages, batches run twice; the interpreter says what is right.

The interpreter holds all keys in one piece, and calls the function once for each rule. A group holds its keys in pages,
and calls it for each share of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest

from tests.judging import ASIDE, LIMITS, TIMES, Judge, Rule, random_rules
from tests.spark.test_group_task import FINGERPRINT, GROUPS, TINY, Engine, batches
from tests.support.records import millis
from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.clock import BatchTime, BatchTimes
from windrow_spark.storage.group_record import GroupState
from windrow_spark.storage.object_pages import ObjectPages, Share


def judged() -> Topology:
    bounded: Any = WatermarkStrategy.for_bounded_out_of_orderness(millis(80))
    elements, rules = (
        from_source(CollectionSource[Any](values)).assign_timestamps_and_watermarks(bounded, timestamp=itemgetter(1))
        for values in ([(1, 1, 1)], [(Rule("a", 1), 1)])
    )
    stream = (
        elements.key_by(lambda element: element[0])
        .connect(rules.map(lambda rule: rule[0]).broadcast(LIMITS, TIMES))
        .process(Judge())
    )
    aside = stream.get_side_output(ASIDE)
    return Topology(Pipeline("judged", stream.sink_to(CollectSink[Any]()), aside.sink_to(CollectSink[Any]())).steps)


def in_parts(topology: Topology) -> Engine:
    """An engine into whose memory the state of a group never fits as a whole."""
    engine = Engine(topology, by_clock=False)
    pages = replace(TINY.object_pages, whole_bytes=600)
    engine.level = replace(engine.level, tuning=replace(TINY, object_pages=pages))
    return engine


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Notes whether each batch asked for all keys, and into how many shares it fell."""
    counts: list[tuple[bool, int]] = []
    shares = ObjectPages.shares

    def counted(self: ObjectPages, *elements: Any, all_keys: bool) -> Iterator[Share[Any]]:
        found = list(shares(self, *elements, all_keys=all_keys))
        counts.append((all_keys, len(found)))
        yield from found

    monkeypatch.setattr(ObjectPages, "shares", counted)
    return counts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_pages_give_what_one_piece_gives(seed: int, shares: list[tuple[bool, int]]) -> None:
    chance = random.Random(seed)
    topology = judged()
    reference = Execution(topology, fast=False)
    reference.open()
    engine = in_parts(topology)
    time, highest = BatchTime(MIN_TIMESTAMP, 0), MIN_TIMESTAMP
    of_elements, of_rules = (Port(step.id) for step in topology.sources)
    inputs = [*batches(chance), []]
    for number, elements in enumerate(inputs):
        watermark = MAX_TIMESTAMP if number == len(inputs) - 1 else max(MIN_TIMESTAMP, highest - 81)
        following = BatchTime(watermark, number * 10)
        # Most batches have no rules.
        rules = [(rule, number * 60) for rule in random_rules(chance, chance.choice([0, 0, 1, 4]))]
        arrived: dict[Port, list[Any]] = {of_elements: elements, of_rules: rules}
        chunks = {port: StampedElements([*values], [None] * len(values)) for port, values in arrived.items()}
        reference.round(chunks, watermark=watermark, processing_time=following.now)
        engine.batch(elements, BatchTimes(time, following), crash=number % 5 == seed, rules=rules)
        time = following
        highest = max([highest, *(at for _, at, _ in elements)])
    expected: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for chunk in reference.sinks.values():
        for value in chunk.values:
            expected[value[0]].append(value)
    # A side output and the main one are one sink here, in one order each.
    assert {key: sorted(found, key=repr) for key, found in engine.found.items()} == {
        key: sorted(found, key=repr) for key, found in expected.items()
    }
    for key, found in expected.items():
        for kind in {value[1] for value in found}:
            assert [v for v in engine.found[key] if v[1] == kind] == [v for v in found if v[1] == kind]
    assert sum(len(value) > 1 and value[1] == "asked" for found in expected.values() for value in found) > 100
    assert max(count for asked, count in shares if asked) > 4
    assert max(count for asked, count in shares if not asked) > 1
    assert engine.working_sets > 0
    # Each group has the same rules.
    records = [GroupState.load(data, FINGERPRINT) for data in engine.records.values() if data is not None]
    assert len(records) == GROUPS.count
    assert len({record.steps[engine.step].shared for record in records}) == 1


def test_rules_reach_a_group_that_has_no_keys_yet() -> None:
    # batch        1          2
    # rules        a: 7
    # elements                x  y    <- in whichever group they are, they see the rule
    engine = Engine(judged(), by_clock=False)
    times = BatchTimes(BatchTime(MIN_TIMESTAMP, 0), BatchTime(MIN_TIMESTAMP, 0))
    engine.batch([], times, crash=True, rules=[(Rule("a", 7), 1)])
    engine.batch([("x", 10, 1), ("y", 10, 1), ("z", 10, 1), ("w", 10, 1)], times, crash=True)
    for key in "xyzw":
        assert engine.found[key] == [(key, "element", 1, [7], True)]
    assert engine.found["rule"] == [("rule", "a", 1, 1, MIN_TIMESTAMP)]


def test_rules_that_ask_for_no_keyed_state_read_no_pages(shares: list[tuple[bool, int]]) -> None:
    engine = in_parts(judged())
    times = BatchTimes(BatchTime(MIN_TIMESTAMP, 0), BatchTime(MIN_TIMESTAMP, 0))
    chance = random.Random(1)
    engine.batch([(chance.random(), 10, chance.randrange(1000)) for _ in range(300)], times, crash=False)
    assert all(len(store) > 4 for store in engine.stores.values())
    shares.clear()
    engine.batch([], times, crash=False, rules=[(Rule("a", 7), 1)])
    assert shares == [(False, 0)] * GROUPS.count
    shares.clear()
    engine.batch([], times, crash=False, rules=[(Rule("a", 7, asks=True), 1)])
    assert all(asked and count > 1 for asked, count in shares)

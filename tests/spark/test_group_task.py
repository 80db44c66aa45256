"""Groups of keys without Spark: random elements, tiny pages, batches run twice; the interpreter says what is right."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from tests.budget import seeded
from tests.spark.fake_steps import Forward, Store
from tests.spark.page_groups import numbers_in_store
from tests.support.records import millis
from tests.working_sets import small_working_sets
from windrow import DataStream, KeyedStream, Pipeline, WatermarkStrategy, from_source
from windrow.errors import UnsupportedOperationError
from windrow.evictors import CountEvictor
from windrow.functions import AggregateFunction, KeyedProcessContext, KeyedProcessFunction, OnTimerContext, TimeDomain
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, CountTrigger, PurgingTrigger
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from windrow_runtime.local.execution import Execution, StampedElements
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.topology import Port, Topology
from windrow_spark.clock import BatchTime, BatchTimes, encode_timer
from windrow_spark.exchange.packer import ToSink
from windrow_spark.exchange.rows import (
    PackedRow,
    Phase,
    RowKind,
    exchange_batch,
    load_values,
    pack_broadcast,
    pack_keyed,
    phase_of,
)
from windrow_spark.key_groups import KeyGroups
from windrow_spark.keyed.batch_level import BatchLevel
from windrow_spark.keyed.group_task import GroupTask, GroupUpdate
from windrow_spark.keyed.level import KeyedStep, Level
from windrow_spark.shipping import known_classes
from windrow_spark.stable_hash import stable_hash
from windrow_spark.storage.group_record import WORKING_SET, GroupState
from windrow_spark.storage.object_pages import ObjectPages, Share, segments_in
from windrow_spark.storage.page_codec import PageCodec, keys_in
from windrow_spark.storage.tuning import ListTuning, PageTuning, StateTuning
from windrow_spark.storage.values import StateCodec

# Any in this module: keys of several types, and what steps make of elements.
Element = tuple[Any, int, int]
FINGERPRINT = bytes(16)
GROUPS = KeyGroups.balanced(1, 2)


class Gather(AggregateFunction[Element, list[Any], tuple[Any, list[Any]]]):
    """An accumulator that is a list of the user's: it has to stay one."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Element, accumulator: list[Any]) -> list[Any]:
        accumulator[len(accumulator) :] = [*accumulator[-1:], value]  # what only a list can do
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[Any, list[Any]]:
        return accumulator[0][0], accumulator[:]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return first + second


class Mean(AggregateFunction[Element, tuple[Any, int, int], tuple[Any, float]]):
    def create_accumulator(self) -> tuple[Any, int, int]:
        return None, 0, 0

    def add(self, value: Element, accumulator: tuple[Any, int, int]) -> tuple[Any, int, int]:
        return value[0], accumulator[1] + 1, accumulator[2] + value[2]

    def get_result(self, accumulator: tuple[Any, int, int]) -> tuple[Any, float]:
        return accumulator[0], accumulator[2] / accumulator[1]

    def merge(self, first: tuple[Any, int, int], second: tuple[Any, int, int]) -> tuple[Any, int, int]:
        return first[0], first[1] + second[1], first[2] + second[2]


class Everything(KeyedProcessFunction[Any, Element, tuple[Any, ...]]):
    """State of all kinds, timers in event time; keys that have nothing but a timer."""

    all = ListStateDescriptor[int]("all")
    value = ValueStateDescriptor[list[int]]("value")
    map = MapStateDescriptor[int, str]("map")

    def process_element(self, value: Element, context: KeyedProcessContext[Any]) -> Iterable[tuple[Any, ...]]:
        key, at, number = value
        context.timer_service.register_event_time_timer(at + number % 50)
        if number % 7 == 0:
            context.get_state(self.all).clear()
            context.get_state(self.map).remove(number % 5)
        elif number % 7 < 5:
            context.get_state(self.all).add_all([number] * (number % 9))
            held = context.get_state(self.value)
            held.update([*(held.value() or [])[-60:], number])
            context.get_state(self.map).put(number % 5, str(number))
        else:
            context.get_state(self.value).clear()
        return [(key, "element", number, context.timer_service.current_watermark)]

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterable[tuple[Any, ...]]:
        held = context.get_state(self.value).value()
        found = sorted(context.get_state(self.map).items())
        yield (context.key, timestamp, list(context.get_state(self.all).get()), held, found)
        if timestamp % 3 == 0:
            for descriptor in (self.all, self.value, self.map):
                context.get_state(descriptor).clear()


class Fading(KeyedProcessFunction[Any, Element, tuple[Any, ...]]):
    """State that expires by the clock."""

    uses_processing_time = True
    ttl: StateTtlConfig | None = StateTtlConfig(millis(25))

    def __init__(self) -> None:
        self.seen = ListStateDescriptor[int]("seen", ttl=self.ttl)

    def process_element(self, value: Element, context: KeyedProcessContext[Any]) -> Iterable[tuple[Any, ...]]:
        context.get_state(self.seen).add(value[2])
        return [(value[0], list(context.get_state(self.seen).get()))]


Keyed = KeyedStream[Any, Element]


def listed(key: Any, window: Any, elements: Sequence[Any]) -> list[Any]:
    return [(key, window, list(elements))]


def tumbling(keyed: Keyed, size: int, **options: Any) -> Any:
    return keyed.window(TumblingEventTimeWindows.of(millis(size), **options))


SESSIONS = EventTimeSessionWindows.with_gap(millis(40))
SLIDING = SlidingEventTimeWindows.of(millis(90), millis(30))
PLANS: dict[str, Callable[[Keyed], DataStream[Any]]] = {
    "tables": lambda keyed: tumbling(keyed, 100).aggregate(Mean()),
    "tables_with_lateness": lambda keyed: tumbling(keyed, 60).allowed_lateness(millis(80)).aggregate(Mean()),
    "sliding_tables": lambda keyed: keyed.window(SLIDING).reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2])),
    "sessions_of_lists": lambda keyed: keyed.window(SESSIONS).allowed_lateness(millis(30)).apply(listed),
    "sessions_with_a_list_of_the_users": lambda keyed: keyed.window(SESSIONS).aggregate(Gather()),
    "purging": lambda keyed: tumbling(keyed, 200).trigger(PurgingTrigger.of(CountTrigger.of(5))).apply(listed),
    "firing_again_and_again": lambda keyed: tumbling(keyed, 150).trigger(CountTrigger.of(3)).apply(listed),
    "firing_at_intervals": lambda keyed: (
        tumbling(keyed, 200).trigger(ContinuousEventTimeTrigger.of(millis(25))).aggregate(Mean())
    ),
    "staggered": lambda keyed: (
        tumbling(keyed, 130, stagger=WindowStagger.NATURAL).allowed_lateness(millis(30)).apply(listed)
    ),
    "evicting": lambda keyed: (
        keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(4)).evictor(CountEvictor.of(10)).apply(listed)
    ),
    "state_and_timers": lambda keyed: keyed.process(Everything()),
    "state_that_expires": lambda keyed: keyed.process(Fading()),
}


class Engine:
    """Calls the groups of one step as Spark does: those with elements, and those whose timer is due."""

    def __init__(self, topology: Topology, *, by_clock: bool) -> None:
        (step,) = topology.keyed
        output = Forward((ToSink(0),))
        create = partial(operator_for, step)
        sides = {port.tag: output for port in topology.ports(step) if port.tag is not None}
        keyed = KeyedStep(0, step.id, step.id, create, output, sides, where=step.where)
        self.by_clock = by_clock
        self.step = step.id
        classes = known_classes(topology.steps)
        self.level = Level(1, True, GROUPS, FINGERPRINT, (keyed,), by_clock=by_clock, classes=classes, tuning=TINY)
        self.codec = PageCodec(StateCodec(self.level.classes))
        self.records: dict[int, bytes | None] = dict.fromkeys(GROUPS.labels)
        self.stores = {label: Store() for label in GROUPS.labels}
        self.working_sets = 0
        self.timers = dict.fromkeys(GROUPS.labels, 0)
        self.found: defaultdict[Hashable, list[Any]] = defaultdict(list)

    def batch(
        self, elements: list[Element], times: BatchTimes, *, crash: bool, rules: Sequence[tuple[Any, int]] = ()
    ) -> None:
        task = GroupTask(self.level)
        for number, label in enumerate(GROUPS.labels):
            mine = of_group(number, elements)
            timer = self.timers[label]
            current = times.current
            due = timer and timer <= (current.now if self.by_clock else encode_timer(current.watermark))
            if not mine and not rules and not due:
                continue
            before = self.records[label], Store(self.stores[label])
            first = self._run(task, label, times, mine, rules)
            if crash:
                # Nothing of it was committed: it runs again, in another process.
                after = self.records[label], self.stores[label]
                self.records[label], self.stores[label] = before
                assert self._run(GroupTask(self.level), label, times, mine, rules) == first
                assert (self.records[label], self.stores[label]) == after
            for value in first:
                self.found[value[0]].append(value)
            self.check(label)

    def _run(
        self, task: GroupTask, label: int, times: BatchTimes, elements: list[Element], rules: Sequence[tuple[Any, int]]
    ) -> list[Any]:
        arrived = packed_rows(label, elements)
        for number, (rule, stamp) in enumerate(rules, start=len(elements)):
            payload = pack_broadcast([(0, [rule], [stamp])])
            arrived.append(PackedRow(label, RowKind.BROADCAST, 1, number, payload))
        data, store = self.records[label], self.stores[label]
        outputs = list(task.run_group(label, data, store, times, times.current.now, [], arrived))
        update = outputs.pop()
        assert isinstance(update, GroupUpdate)
        self.records[label] = update.data
        if update.old_timer or update.new_timer:
            self.timers[label] = update.new_timer
        rows = [row for row in outputs if not isinstance(row, GroupUpdate) and row.kind == RowKind.OUTPUT]
        rows.sort(key=lambda row: row.number)
        return [value for row in rows for value in load_values(row.payload)]

    def keys_in_working_set(self, label: int) -> set[Hashable]:
        data = self.records[label]
        assert data is not None
        record = GroupState.load(data, FINGERPRINT).steps[self.step]
        if not record.working:
            return set()
        pages = ObjectPages(record, self.codec, self.stores[label], GROUPS.count)
        return set(keys_in(pages.load([WORKING_SET])))

    def check(self, label: int) -> None:
        """Nothing is stored that nobody refers to, and nothing is missing."""
        store, data = self.stores[label], self.records[label]
        if data is None:
            assert store == {}
            return
        record = GroupState.load(data, FINGERPRINT).steps[self.step]
        pages = ObjectPages(record, self.codec, store, GROUPS.count)
        working_set = [WORKING_SET] if record.working else []
        self.working_sets += len(working_set)
        state = pages.load([*working_set, *range(record.pages)])
        segments = [-(record.slot << 48 | number) for number in segments_in(state)]
        assert sorted(store) == sorted([*segments, *numbers_in_store(record)])


def packed_rows(label: int, elements: list[Element]) -> list[PackedRow]:
    """The rows of the exchange with 40 elements each."""
    rows = []
    for start in range(0, len(elements), 40):
        chunk = elements[start : start + 40]
        payload = pack_keyed([(0, [key for key, _, _ in chunk], chunk, [at for _, at, _ in chunk])])
        rows.append(PackedRow(label, RowKind.ELEMENTS, 1, start, payload))
    return rows


def of_group(number: int, elements: list[Element]) -> list[Element]:
    return [element for element in elements if stable_hash(element[0]) % GROUPS.count == number]


KEYS: list[Any] = [*range(40), *(f"key {n}" for n in range(40)), *((n, str(n)) for n in range(20)), None]


def batches(chance: random.Random) -> Iterator[list[Element]]:
    """Batches of every size; time goes on by some 60 ms in each, with disorder; keys come and go."""
    for number in range(40):
        alive = KEYS if number % 10 < 6 else chance.sample(KEYS, 5)
        size = chance.choice([0, 1, 7, 60, 200])
        yield [
            (chance.choice(alive), number * 60 + chance.randrange(-120, 60), chance.randrange(1000))
            for _ in range(size)
        ]


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes into how many shares each batch fell."""
    counts: list[int] = []
    shares = ObjectPages.shares

    def counted(self: ObjectPages, *elements: Any, all_keys: bool = False) -> Iterator[Share[Any]]:
        counts.append(0)
        for share in shares(self, *elements, all_keys=all_keys):
            counts[-1] += 1
            yield share

    monkeypatch.setattr(ObjectPages, "shares", counted)
    return counts


TINY = StateTuning(
    object_pages=PageTuning(
        small=150,
        dense=150,
        least=37,
        inline_bytes=250,
        bytes_at_once=600,
        splits_per_batch=3,
        pages_in_record=4,
        pages_of_a_leaf=2,
        hot_keys=small_working_sets(400),
    ),
    lists=ListTuning(tail_elements=3, segment_bytes=40),
)
"""Pages, shares and segments of some hundred bytes."""


def topology_of(build: Callable[[Keyed], DataStream[Any]]) -> Topology:
    source = from_source(CollectionSource[Element]([(1, 1, 1)])).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(millis(80)), timestamp=lambda element: element[1]
    )
    stream = build(source.key_by(lambda element: element[0]))
    return Topology(Pipeline("plan", stream.sink_to(CollectSink[Any]())).steps)


@pytest.mark.parametrize(("name", "seed"), seeded(PLANS))
def test_pages_give_what_one_piece_gives(name: str, seed: int, shares: list[int]) -> None:
    chance = random.Random(seed)
    topology = topology_of(PLANS[name])
    # One for each group, since the windows of each may have a shift of its own.
    references = [Execution(topology, fast=False) for _ in GROUPS.labels]
    for reference in references:
        reference.open()
    engine = Engine(topology, by_clock=name == "state_that_expires")
    time = BatchTime(MIN_TIMESTAMP, 0)
    highest = MIN_TIMESTAMP
    port = Port(topology.sources[0].id)
    sizes: list[int] = []
    inputs = [*batches(chance), None, []]
    for number, elements in enumerate(inputs):
        ended = elements is None or number == len(inputs) - 1
        watermark = MAX_TIMESTAMP if ended else max(MIN_TIMESTAMP, highest - 81)
        following = BatchTime(watermark, number * 10)
        batch = elements or []
        # None is a key like any other, and True is 1.
        batch = [(True if key == 1 and at % 2 else key, at, value) for key, at, value in batch]
        for group, reference in enumerate(references):
            mine = of_group(group, batch)
            reference.round(
                {port: StampedElements(mine, [None] * len(mine))}, watermark=watermark, processing_time=following.now
            )
        engine.batch(batch, BatchTimes(time, following), crash=number % 5 == seed)
        time = following
        highest = max([highest, *(at for _, at, _ in batch)])
        sizes.extend(map(len, engine.stores.values()))
    expected: defaultdict[Hashable, list[Any]] = defaultdict(list)
    for reference in references:
        for chunk in reference.sinks.values():
            for value in chunk.values:
                expected[value[0]].append(value)
    assert sum(map(len, expected.values())) > 100
    assert engine.found == expected
    assert max(sizes) > 4
    assert max(shares) > 1
    assert engine.working_sets > 0
    if name in {"tables", "sliding_tables", "sessions_of_lists", "sessions_with_a_list_of_the_users"}:
        assert set(engine.records.values()) == {None}


def test_elements_for_deeper_levels_pass_in_their_phase_without_being_decoded() -> None:
    level = Level(1, False, GROUPS, FINGERPRINT, ())
    # Neither payload is a pickle, so that decoding it would fail.
    first, second = (PackedRow(GROUPS.labels[1], RowKind.ELEMENTS, 2, 7, name) for name in (b"first", b"second"))
    times = BatchTimes(BatchTime(0, 0), BatchTime(10, 10))
    label = GROUPS.labels[1]
    outputs = list(GroupTask(level).run_group(label, None, Store(), times, 10, [first], [second]))
    rows = [row for row in outputs if not isinstance(row, GroupUpdate)]
    assert [(phase_of(row.number), row._replace(number=7)) for row in rows] == [
        (Phase.BEFORE_WATERMARK, first),
        (Phase.AFTER_WATERMARK, second),
    ]


@pytest.mark.parametrize("name", ["state_and_timers", "sliding_tables"])
def test_a_job_takes_a_group_piece_by_piece(name: str) -> None:
    #  rows      one for each 40 elements, and what service groups pass on
    #  pieces    all of a group at once, or a row each: the same results
    level = Engine(topology_of(PLANS[name]), by_clock=False).level
    elements = [element for batch in batches(random.Random(5)) for element in batch]
    rows = [PackedRow(-1, RowKind.OUTPUT, 3, 0, b"of the source"), PackedRow(-1, RowKind.CLOCK, 0, 1, b"")]
    for number, label in enumerate(GROUPS.labels):
        rows += packed_rows(label, of_group(number, elements))
    found: list[list[Any]] = []
    for portion_bytes in (1 << 30, 1):
        outputs = BatchLevel(level, 0, portion_bytes)(iter([exchange_batch(rows)]))
        packed = [PackedRow(*row.values()) for batch in outputs for row in batch.to_pylist()]
        assert packed.pop(0) == rows[0]
        values = [value for row in packed if row.kind == RowKind.OUTPUT for value in load_values(row.payload)]
        found.append(sorted(values, key=repr))
        assert len({row.number for row in packed}) == len(packed)
    assert len(found[0]) > 100
    assert found[0] == found[1]


def test_random_windows_keep_the_shift_that_their_group_has_drawn(shares: list[int]) -> None:
    # clock    40             1040     2040
    # group 0  draws a shift           the same one
    # group 1                 draws    the same one
    at_random = topology_of(lambda keyed: tumbling(keyed, 1_000, stagger=WindowStagger.RANDOM).apply(listed))
    engine = Engine(at_random, by_clock=False)
    first, second = (next(key for key in range(20) if stable_hash(key) % GROUPS.count == number) for number in (0, 1))
    watermarks = MIN_TIMESTAMP, MIN_TIMESTAMP, 5_000, MAX_TIMESTAMP
    times = [BatchTime(watermark, 40 + number * 1_000) for number, watermark in enumerate(watermarks)]
    previous = times[0]
    for number, (time, keys) in enumerate(zip(times, [[first], [first, second], [first, second], []], strict=True)):
        # Each batch runs twice, and must come to the same: another shift would be another window of what is late.
        elements = [(key, number * 3_000 + place, place) for key in keys for place in (0, 400, 800)]
        engine.batch(elements, BatchTimes(previous, time), crash=True)
        previous = time
    shifts = {key: {window.start % 1_000 for _, window, _ in engine.found[key]} for key in (first, second)}
    assert [len(shifts[key]) for key in (first, second)] == [1, 1]
    assert shifts[first] != shifts[second]


class Hoarding(KeyedProcessFunction[Any, Element, tuple[Any, ...]]):
    """Keeps what comes, and at 0 a function, which nobody can store."""

    held = ValueStateDescriptor[list[Any]]("held")

    def process_element(self, value: Element, context: KeyedProcessContext[Any]) -> Iterable[tuple[Any, ...]]:
        key, _, number = value
        held = context.get_state(self.held)
        held.update([*(held.value() or []), number or Hoarding.process_element])
        return [(key, number)]


def test_a_value_in_the_working_set_that_cannot_be_stored_is_told_with_its_step(shares: list[int]) -> None:
    # batch          1           2               3              4           5
    # keys           all, paged  one: remembered the same, in   the same    the same, with a function
    # working set    -           -               one key        one key     cannot be stored
    engine = Engine(topology_of(lambda keyed: keyed.process(Hoarding())), by_clock=False)
    one = next(key for key in range(40) if stable_hash(key) % GROUPS.count == 0)
    time = BatchTime(MIN_TIMESTAMP, 0)
    engine.batch([(key, 0, 7) for key in range(300)], BatchTimes(time, time), crash=False)
    for _ in range(3):
        engine.batch([(one, 0, 8)], BatchTimes(time, time), crash=False)
    assert engine.keys_in_working_set(GROUPS.labels[0]) == {one}
    where = engine.level.steps[0].where
    assert where is not None
    with pytest.raises(UnsupportedOperationError, match=r"is to be stored|cannot be stored") as caught:
        engine.batch([(one, 0, 0)], BatchTimes(time, time), crash=False)
    assert caught.value.where == where


@pytest.mark.parametrize("trigger", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_what_a_trigger_fires_over_a_leap_in_time_does_not_pile_up(
    trigger: type[ContinuousEventTimeTrigger | ContinuousProcessingTimeTrigger],
) -> None:
    # watermark, clock   none                                30 s
    # window             |-----------------------------------|
    # fires              1 2 3 4 ...                   30,000
    fired = 0

    class Counted(Mean):
        def get_result(self, accumulator: tuple[Any, int, int]) -> tuple[Any, float]:
            nonlocal fired
            fired += 1
            return super().get_result(accumulator)

    by_clock = trigger is ContinuousProcessingTimeTrigger
    windows = (TumblingProcessingTimeWindows if by_clock else TumblingEventTimeWindows).of(millis(30_000))
    every_millisecond = trigger.of(millis(1))
    topology = topology_of(lambda keyed: keyed.window(windows).trigger(every_millisecond).aggregate(Counted()))
    engine = Engine(topology, by_clock=by_clock)
    begin, end = BatchTime(MIN_TIMESTAMP, 0), BatchTime(MAX_TIMESTAMP, 30_000)
    engine.batch([("a", 0, 7)], BatchTimes(begin, begin), crash=False)
    label = GROUPS.labels[stable_hash("a") % GROUPS.count]
    task = GroupTask(engine.level)
    taken = most = 0
    times = BatchTimes(begin, end)
    for row in task.run_group(label, engine.records[label], engine.stores[label], times, 30_000, [], []):
        if not isinstance(row, GroupUpdate) and row.kind == RowKind.OUTPUT:
            most = max(most, fired - taken)
            taken += len(load_values(row.payload))
    assert taken == fired
    assert fired >= 29_999
    assert most < 10_000


#  batch      1    2    3    ...    12, and the end
#  element    NaN  NaN  NaN         each an object of its own, as it comes out of the exchange
@pytest.mark.parametrize("key", [lambda: float("nan"), lambda: ("a", float("nan"))], ids=["float", "tuple"])
@pytest.mark.usefixtures("shares")
def test_nans_are_one_key_across_batches(key: Callable[[], Any]) -> None:
    engine = Engine(topology_of(lambda keyed: keyed.process(CountedByTimer())), by_clock=False)
    time = BatchTime(MIN_TIMESTAMP, 0)
    for number in range(13):
        watermark = MAX_TIMESTAMP if number == 12 else MIN_TIMESTAMP
        following = BatchTime(watermark, 0)
        others = [(other, 0, 0) for other in range(5 * number)]
        batch = [] if number == 12 else [(key(), 0, 0), *others, (key(), 1, 0)]
        engine.batch(batch, BatchTimes(time, following), crash=False)
        time = following
    counts = [value for values in engine.found.values() for value in values if not isinstance(value[0], int)]
    assert [count for _, count in counts] == [24]


class CountedByTimer(KeyedProcessFunction[Any, Element, tuple[Any, int]]):
    """How many elements each key had, in the end."""

    seen = ValueStateDescriptor[int]("seen")

    def process_element(self, value: Element, context: KeyedProcessContext[Any]) -> Iterable[tuple[Any, int]]:
        context.timer_service.register_event_time_timer(100)
        held = context.get_state(self.seen)
        held.update((held.value() or 0) + 1)
        return []

    def on_timer(self, timestamp: int, context: OnTimerContext[Any]) -> Iterable[tuple[Any, int]]:
        yield context.key, context.get_state(self.seen).value() or 0


class Lasting(Fading):
    """The same function in a later program, whose state stays for ever."""

    uses_processing_time = False
    ttl: StateTtlConfig | None = None


class FadingInEventTime(Lasting):
    ttl: StateTtlConfig | None = StateTtlConfig(millis(5_000), time_domain=TimeDomain.EVENT_TIME)


#  batch     1            2                3
#  program   the former   the later one    the later one
#  state     expires by the clock, in the later program no more: nobody waits for the timers that would remove it
@pytest.mark.parametrize("later", [Lasting, FadingInEventTime])
@pytest.mark.usefixtures("shares")
def test_state_that_no_longer_expires_by_the_clock_goes_on(later: type[Fading]) -> None:
    former = Engine(topology_of(lambda keyed: keyed.process(Fading())), by_clock=True)
    time = BatchTime(MIN_TIMESTAMP, 0)
    former.batch([(key, 0, 7) for key in range(60)], BatchTimes(time, time), crash=False)
    engine = Engine(topology_of(lambda keyed: keyed.process(later())), by_clock=False)
    engine.records, engine.stores = former.records, former.stores
    for number in (8, 9):
        engine.batch([(key, 1, number) for key in range(5)], BatchTimes(time, time), crash=True)
    assert [values for _, values in engine.found[3]] == [[7, 8], [7, 8, 9]]


class Waiting(KeyedProcessFunction[Any, Element, tuple[Any, ...]]):
    """Sets a timer by the clock, or in a later program none."""

    def __init__(self, *, waits: bool) -> None:
        self.uses_processing_time = waits

    def process_element(self, value: Element, context: KeyedProcessContext[Any]) -> None:
        if self.uses_processing_time:
            context.timer_service.register_processing_time_timer(50)


def test_a_timer_by_the_clock_of_a_former_program_is_refused_where_nobody_waits() -> None:
    time = BatchTime(MIN_TIMESTAMP, 0)
    former = Engine(topology_of(lambda keyed: keyed.process(Waiting(waits=True))), by_clock=True)
    former.batch([("a", 0, 7)], BatchTimes(time, time), crash=False)
    engine = Engine(topology_of(lambda keyed: keyed.process(Waiting(waits=False))), by_clock=False)
    engine.records, engine.stores = former.records, former.stores
    with pytest.raises(UnsupportedOperationError, match="nothing in the plan says so"):
        engine.batch([("a", 1, 8)], BatchTimes(time, time), crash=False)

"""Alerts by rules that change while the stream runs: temperatures above the limit of their kind of room.

python examples/rules_for_alerts.py
"""

import argparse
from collections.abc import Iterable
from typing import NamedTuple

from windrow import DataStream, from_source
from windrow.functions import BroadcastContext, KeyedBroadcastProcessFunction, ReadOnlyContext
from windrow.state import MapStateDescriptor, ValueState, ValueStateDescriptor
from windrow_runtime.testing import PushSource, StreamHarness


class Reading(NamedTuple):
    room: str
    kind: str  # of room
    celsius: float


class Limit(NamedTuple):
    kind: str
    celsius: float | None  # None: there is none any more


LIMITS = MapStateDescriptor("limits", str, float)
LAST = ValueStateDescriptor("last", Reading)
STEPS: list[Reading | Limit] = [
    Limit("office", 26.0),
    Reading("cellar", "store", 27.0),
    Limit("store", 18.0),  # the cellar is above it already
    Reading("3.14", "office", 27.5),
    Limit("office", None),
    Reading("3.14", "office", 30.0),
]


class Alerts(KeyedBroadcastProcessFunction[str, Reading, Limit, str]):
    def process_element(self, value: Reading, context: ReadOnlyContext[str]) -> Iterable[str]:
        context.get_state(LAST).update(value)
        if (limit := context.get_broadcast_state(LIMITS).get(value.kind)) is not None and value.celsius > limit:
            yield f"{value.room}: {value.celsius} is above {limit}"

    def process_broadcast_element(self, value: Limit, context: BroadcastContext[str, str]) -> None:
        limits = context.get_broadcast_state(LIMITS)
        if (limit := value.celsius) is None:
            limits.remove(value.kind)
            return
        limits.put(value.kind, limit)

        def already_above(room: str, last: ValueState[Reading]) -> Iterable[str]:
            if (reading := last.value()) is not None and reading.kind == value.kind and reading.celsius > limit:
                yield f"{room}: {reading.celsius} is above {limit}"

        context.apply_to_keyed_state(LAST, already_above)


def build(readings: DataStream[Reading], limits: DataStream[Limit]) -> DataStream[str]:
    return readings.key_by(lambda reading: reading.room).connect(limits.broadcast(LIMITS)).process(Alerts())


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    readings, limits = PushSource(Reading), PushSource(Limit)
    with StreamHarness(build(from_source(readings), from_source(limits)), readings) as harness:
        for step in STEPS:
            if isinstance(step, Limit):
                harness.process_element(step, source=limits)
            else:
                harness.process_element(step, source=readings)
        print(*harness.take_values(), sep="\n")


if __name__ == "__main__":
    main()

"""A process function with state: deduplication, and a count of what it dropped."""

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from windrow import Pipeline, from_collection
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink
from windrow.state import StateTtlConfig, ValueStateDescriptor


class Payment(NamedTuple):
    number: int
    cents: int

    def __str__(self) -> str:
        return f"{self.cents} ct"


SEEN = ValueStateDescriptor("seen", bool, ttl=StateTtlConfig(timedelta(hours=1)))


class Deduplicate(KeyedProcessFunction[int, Payment, Payment]):
    def process_element(
        self, value: Payment, context: KeyedProcessContext[int]
    ) -> Iterable[Payment]:
        seen = context.get_state(SEEN)
        if not seen.value():
            seen.update(True)
            yield value


payments = from_collection(
    [
        Payment(1, 500),
        Payment(2, 900),
        Payment(1, 500),
        Payment(3, 250),
        Payment(2, 900),
    ]
)
once = payments.key_by(lambda payment: payment.number).process(Deduplicate())

results = CollectSink[Payment]()
pipeline = Pipeline("deduplicate", once.sink_to(results))

"""A result that a late element changes is withdrawn before the new one comes."""

from datetime import timedelta
from typing import NamedTuple

from windrow import Pipeline, WatermarkStrategy, from_source
from windrow.sinks import CollectSink
from windrow.sources import CollectionSource
from windrow.windows import TumblingEventTimeWindows


class Order(NamedTuple):
    shop: str
    second: int
    euros: int

    def __str__(self) -> str:
        return f"{self.euros} €"


# One element a batch: the watermark moves between any two.
source = CollectionSource(
    [
        Order("north", 2, 20),
        Order("north", 5, 30),
        Order("north", 14, 5),
        Order("north", 8, 100),  # late
        Order("north", 25, 1),
    ],
    batch_size=1,
)

totals = (
    from_source(source)
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(),
        timestamp=lambda order: order.second * 1000,
    )
    .key_by(lambda order: order.shop)
    .window(TumblingEventTimeWindows.of(timedelta(seconds=10)))
    .allowed_lateness(timedelta(seconds=30))
    .retracting()
    .reduce(lambda a, b: Order(a.shop, a.second, a.euros + b.euros))
)

changes = CollectSink[object]()
pipeline = Pipeline("totals", totals.changelog().sink_to(changes))

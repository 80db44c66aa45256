"""Fragments that are small enough to work out by hand what a task must do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.columnar.engine import Store
from windrow.time import MIN_TIMESTAMP
from windrow_spark.clock import SeenTimestamps
from windrow_spark.exchange.facts import Count
from windrow_spark.exchange.packer import ToSink, ToStep

__all__ = ["ByKey", "Forward", "Store", "TimestampedSource", "by_key"]

# Any: elements of all kinds.


@dataclass(frozen=True)
class ByKey:
    """Elements go to a keyed step, with the key that a function gives."""

    step: int
    level: int
    key: Callable[[Any], Any]


@dataclass
class Forward:
    """Hands on the elements as they are."""

    targets: tuple[ByKey | ToSink, ...]
    precedes_watermark: bool = False

    def run(
        self, values: Sequence[Any], timestamps: Sequence[int | None]
    ) -> list[tuple[ToStep | ToSink, Sequence[Any], Sequence[int | None]]]:
        return [
            (
                ToStep(target.step, target.level, list(map(target.key, values)))
                if isinstance(target, ByKey)
                else target,
                values,
                timestamps,
            )
            for target in self.targets
        ]

    @property
    def is_idle(self) -> bool:
        return False

    def observe(self, step: str, highest: int) -> None:
        raise AssertionError("no step assigns timestamps")

    def take_counts(self) -> list[Count]:
        """Counts nothing."""
        return []

    def take_timestamps(self) -> list[SeenTimestamps]:
        """Reports nothing."""
        return []

    def close(self) -> None:
        """Has nothing to close."""


class TimestampedSource:
    """Elements are (key, timestamp); the watermark is the highest timestamp less one."""

    def __init__(self, targets: tuple[ByKey | ToSink, ...]) -> None:
        self.forward = Forward(targets)
        self.precedes_watermark = False
        self.watermark = MIN_TIMESTAMP

    def run(
        self, values: Sequence[Any], timestamps: Sequence[int | None], origin: object = None
    ) -> list[tuple[ToStep | ToSink, Sequence[Any], Sequence[int | None]]]:
        times = [time for _, time in values]
        self.watermark = max([self.watermark, *(time - 1 for time in times)])
        return self.forward.run(values, times)

    @property
    def is_idle(self) -> bool:
        return False

    def observe(self, step: str, highest: int) -> None:
        raise AssertionError("there are no columns")

    def end_batch(self) -> None:
        """Has nothing to add."""

    def begin_partition(self, name: str) -> None:
        raise AssertionError("the source has no partitions")

    def take_counts(self) -> list[Count]:
        """Counts nothing."""
        return []

    def take_timestamps(self) -> list[SeenTimestamps]:
        """Reports nothing."""
        return []

    def close(self) -> None:
        """Has nothing to close."""


def by_key(value: Any) -> Any:
    return value[0]

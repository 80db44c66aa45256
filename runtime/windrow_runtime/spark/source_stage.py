"""The first stage of a query: records become elements, the first steps run, and elements are packed by key group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.time import MIN_TIMESTAMP
from windrow_runtime.spark.classes import register_classes
from windrow_runtime.spark.event_clock import encode_watermark
from windrow_runtime.spark.failures import failures_marked
from windrow_runtime.spark.garbage import rare_collections
from windrow_runtime.spark.key_groups import KeyGroups
from windrow_runtime.spark.level import SourceFragment
from windrow_runtime.spark.packer import Packer
from windrow_runtime.spark.payload import Phase, pack_elements
from windrow_runtime.spark.rows import CLOCK, PackedRow, packed_batch

__all__ = ["SourceStage"]

# Any: elements and keys are of the user's types; pyarrow has no types.

_CLOCK_PAYLOAD = pack_elements([MIN_TIMESTAMP], [None])  # what it says is known to the first level itself


@dataclass(frozen=True, slots=True)
class SourceStage:
    """What Spark runs on each partition of a source, by ``mapInArrow``.

    Attributes:
        decode: Makes the elements of an Arrow batch.
        create: Makes the fragment, once in each task.
        groups: The key groups of the query.
        hash_key: Hashes keys alike in every process.
        levels: How many levels the query has.
        classes: The user's classes that may occur in elements.
    """

    decode: Callable[[Any], Sequence[Any]]
    create: Callable[[], SourceFragment]
    groups: KeyGroups
    hash_key: Callable[[Any], int]
    levels: int
    classes: tuple[type[Any], ...] = ()

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Called by Spark with the Arrow batches of a partition; gives Arrow batches of packed rows."""
        with failures_marked(), rare_collections():
            yield from self._run(batches)

    def _run(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        register_classes(self.classes)
        context = TaskContext.get()
        origin = context.partitionId() if context is not None else 0
        # A row for sinks needs no place of its own in the exchange: any partition will pass it on.
        service_label = self.groups.service_labels[origin % self.groups.partitions]
        packer = Packer(self.groups, self.hash_key, Phase.AFTER_WATERMARK)
        packer.start(origin, service_label)
        fragment = self.create()
        for batch in batches:
            values = self.decode(batch)
            if not values:
                continue
            for target, out_values, out_timestamps in fragment.run(values, [None] * len(values)):
                packer.add(target, out_values, out_timestamps)
            rows = list(packer.full())
            if rows:
                yield packed_batch(rows, encode_watermark(fragment.watermark))
        rows = list(packer.flush())
        watermark = encode_watermark(fragment.watermark)
        if self.levels > 1:
            rows += [PackedRow(label, CLOCK, 0, _CLOCK_PAYLOAD) for label in self.groups.service_labels]
        elif not rows and watermark is not None:
            rows.append(PackedRow(service_label, CLOCK, 0, _CLOCK_PAYLOAD))
        if rows:
            yield packed_batch(rows, watermark)

"""Assigns keys to key groups, the units of keyed state on Spark.

Keys are hashed into a fixed number of groups, as in Flink, and Spark sees only the groups. Spark itself hashes a
group's label to a shuffle partition, so the labels are chosen such that every partition gets equally many groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

_MASK = 0xFFFFFFFF
_SPARK_SEED = 42


def murmur3_int(value: int) -> int:
    """Computes Spark's hash of an ``INT``: Murmur3 (x86, 32 bits) of one word, as a signed 32-bit number."""
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = (mixed << 15 | mixed >> 17) & _MASK
    state = _SPARK_SEED ^ (mixed * 0x1B873593 & _MASK)
    state = (state << 13 | state >> 19) & _MASK
    state = (state * 5 + 0xE6546B64) & _MASK
    state ^= 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def spark_partition(label: int, partitions: int) -> int:
    """Returns the shuffle partition to which Spark sends rows of the group ``label``."""
    return murmur3_int(label) % partitions


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The key groups of one query, which a restart reads from the checkpoint, since stored state depends on them.

    Each of Spark's shuffle partitions also has a service group, which has no keys. Its rows come first in their
    partition, because its label is negative and Spark sorts by label.
    """

    partitions: int
    labels: tuple[int, ...]  # by the number of the group
    service_labels: tuple[int, ...] = field(repr=False)  # by the number of the partition

    @staticmethod
    def balanced(partitions: int, per_partition: int) -> KeyGroups:
        """Returns groups of which each of Spark's shuffle partitions has the same number."""
        if partitions < 1 or per_partition < 1:
            raise ValueError(f"at least one partition and one group: {partitions=}, {per_partition=}")
        by_partition = _labels_by_partition(count(), partitions, per_partition)
        services = _labels_by_partition(count(-1, -1), partitions, 1)
        return KeyGroups(
            partitions=partitions,
            # Groups with consecutive numbers are in different partitions.
            labels=tuple(labels[rank] for rank in range(per_partition) for labels in by_partition),
            service_labels=tuple(label for labels in services for label in labels),
        )

    @property
    def count(self) -> int:
        """The number of groups without service groups."""
        return len(self.labels)

    def number_of(self, key_hash: int) -> int:
        """Returns the number of the group for keys with this hash."""
        return key_hash % len(self.labels)

    def service_label_of(self, label: int) -> int:
        """Returns the label of the service group in the same partition as the group ``label``."""
        return self.service_labels[spark_partition(label, self.partitions)]


def _labels_by_partition(candidates: Iterable[int], partitions: int, each: int) -> list[list[int]]:
    """Returns for each of Spark's shuffle partitions the first ``each`` candidates that Spark sends there."""
    by_partition: list[list[int]] = [[] for _ in range(partitions)]
    missing = partitions * each
    for label in candidates:
        labels = by_partition[spark_partition(label, partitions)]
        if len(labels) < each:
            labels.append(label)
            missing -= 1
            if not missing:
                break
    return by_partition

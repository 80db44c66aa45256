"""Cases: a random branch each. Cases of neighbouring numbers read one input, so that one query can run them all."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias, Union

from tests.differential.branches import Branch
from tests.differential.inputs import random_input
from tests.spark.comparison import Event, Outputs
from windrow import Pipeline
from windrow.windows import GlobalWindow
from windrow_runtime.operators.result import PipelineResult

__all__ = ["Found", "Json", "Prepared", "digest", "grouped"]

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", None]

_GROUP = 20  # cases that share an input


@dataclass(frozen=True)
class Found:
    """What a run gave for one case.

    Attributes:
        outputs: The elements of each output by key, in JSON; by null where they have no order.
        counters: The counters of each step.
    """

    outputs: Mapping[str, Mapping[str, Sequence[Json]]]
    counters: Mapping[str, Mapping[str, int]]

    @property
    def size(self) -> int:
        """How many elements there are."""
        return sum(len(elements) for keys in self.outputs.values() for elements in keys.values())


class Prepared:
    """Cases that read one input, as one pipeline.

    Args:
        seed: The seed of all cases.
        numbers: Their numbers, all of one group.
    """

    def __init__(self, seed: int, numbers: Sequence[int]) -> None:
        group = numbers[0] // _GROUP
        self.seed = seed
        self.numbers = numbers
        self.input = random_input(random.Random(f"{seed}, input {group}"))
        self._outputs = {number: Outputs() for number in numbers}
        stream = self.input.stream()
        for number, outputs in self._outputs.items():
            Branch(random.Random(f"{seed}, case {number}"), f"{number}", outputs).grow(stream)
        ends = [end for outputs in self._outputs.values() for end in outputs.ends]
        self.pipeline = Pipeline("differential", *ends)

    def found(self, result: PipelineResult) -> dict[int, Found]:
        """What a run of the pipeline gave, by case."""
        counters: defaultdict[int, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for step, counts in result.counters.items():
            _, _, name = step.split(".", 2)
            counters[int(name.partition(".")[0])][name] = dict(sorted(counts.items()))
        return {
            number: Found(
                {name: _plain_keys(keys) for name, keys in outputs.of(result).items()}, counters[number]
            )
            for number, outputs in self._outputs.items()
        }


def grouped(numbers: Iterable[int]) -> Iterator[list[int]]:
    """The cases that share an input, by group."""
    for _, group in groupby(sorted(set(numbers)), lambda number: number // _GROUP):
        yield list(group)


def digest(seed: int, number: int) -> str:
    """Tells whether a case is still the one that it was: its plan and its input."""
    alone = Prepared(seed, [number])
    text = f"{alone.pipeline.explain()}\n{alone.input.describe()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Any: elements of every type that random pipelines have.
def _plain_keys(keys: Mapping[Hashable, Sequence[Any]]) -> dict[str, list[Json]]:
    return {json.dumps(_plain(key)): [_plain(element) for element in found] for key, found in keys.items()}


def _plain(value: Any) -> Json:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Event):
        return [value.key, value.at, value.value]
    if isinstance(value, GlobalWindow):
        return "global"
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    raise TypeError(f"random pipelines have no elements of type {type(value).__name__}")

"""Cases: a random branch each. Cases of neighbouring numbers read one input, so that one query can run them all."""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias, Union

from tests.differential.branches import Branch
from tests.differential.declared import DeclaredSteps
from tests.differential.functions import Summary
from tests.differential.inputs import random_input
from tests.differential.live import add_clock, live_input
from tests.differential.mutating import Loose, Noted
from tests.differential.two_inputs import TwoInputs
from tests.spark.comparison import Event, Outputs
from windrow import Pipeline
from windrow.errors import WindrowWarning
from windrow.sinks import FunctionSink
from windrow.windows import GlobalWindow
from windrow_runtime.outputs.result import PipelineResult

Json: TypeAlias = Union[bool, int, float, str, "list[Json]", None]

_GROUP = 20  # cases that share an input
_CLOCK_START = 1_000

Engine: TypeAlias = Callable[[Pipeline, "Callable[[], int] | None"], PipelineResult]
"""Runs a pipeline, by a clock where one is given."""


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


@dataclass
class Prepared:
    """Cases that read one input, as one pipeline.

    Attributes:
        seed: The seed of all cases.
        numbers: Their numbers, all of one group.
        one_batch: Whether all elements are in one batch, see :meth:`Input.in_one_batch`.
        files: A folder for files that elements come from, which have columns; None: they come from collections. With
            columns some steps have declared aggregates, or, of two inputs, some joins are declared.
        two_inputs: Whether cases begin with a step of two inputs, see :mod:`tests.differential.two_inputs`.
        live: Whether cases are for runs by the machine's clock, see :mod:`tests.differential.live`; they need files.
    """

    seed: int
    numbers: Sequence[int]
    _: KW_ONLY
    one_batch: bool = False
    files: Path | None = None
    two_inputs: bool = False
    live: bool = False

    def __post_init__(self) -> None:
        seed, files, two_inputs = self.seed, self.files, self.two_inputs
        group = self.numbers[0] // _GROUP
        drawn = random_input(random.Random(f"{seed}, input {group}"), two=two_inputs)
        self.input = live_input(seed, group) if self.live else drawn
        if self.one_batch:
            self.input = self.input.in_one_batch()
        self._outputs = {number: Outputs() for number in self.numbers}
        self._batches: set[int] = set()
        sources = self.input.sources(None if files is None else files / f"{seed}-{group}")
        both = self.input.streams(sources) if two_inputs else []
        stream = None if two_inputs else self.input.stream(sources)
        clocked = self.input.clock_step is not None
        for number, outputs in self._outputs.items():
            chance = random.Random(f"{seed}, case {number}")
            declared = None
            if files is not None and not two_inputs:
                draws = random.Random(f"{seed}, declared {number}"), random.Random(f"{seed}, behind {number}")
                passing = random.Random(f"{seed}, passing {number}")
                declared = DeclaredSteps(*draws, passing, outputs, clocked=clocked)
            branch = Branch(
                chance,
                f"{number}",
                outputs,
                clocked=clocked,
                stagger=random.Random(f"{seed}, staggered {number}"),
                mutate=random.Random(f"{seed}, mutating {number}"),
                panes=random.Random(f"{seed}, panes {number}"),
                order=random.Random(f"{seed}, in order {number}"),
                kinds=random.Random(f"{seed}, kinds {number}"),
                declared=declared,
            )
            if stream is not None and self.live:
                begin, is_keyed = add_clock(stream, f"{number}", outputs, random.Random(f"{seed}, clock {number}"))
                branch.grow(begin, behind_keyed=is_keyed)
                continue
            if stream is not None:
                branch.grow(stream)
                continue
            left, right = both
            declare = None if files is None else random.Random(f"{seed}, declared {number}")
            step = TwoInputs(
                chance,
                f"{number}.both",
                outputs,
                clocked=clocked,
                aside=random.Random(f"{seed}, side inputs {number}"),
                retain=random.Random(f"{seed}, retention {number}"),
                declare=declare,
            )
            found = step.step(left, right)
            branch.grow(found, behind_keyed=True, ordered=step.ordered)
        ends = [end for outputs in self._outputs.values() for end in outputs.ends]
        if clocked:
            ends += [source.sink_to(FunctionSink(self._take_batch)) for source in sources]
        self.pipeline = Pipeline("differential", *ends)

    def alone(self, number: int) -> Prepared:
        """One of the cases by itself."""
        return replace(self, numbers=[number])

    def run(self, engine: Engine) -> dict[int, Found]:
        """What an engine gives, by case."""
        self._batches.clear()
        with warnings.catch_warnings():
            # Windows in processing time that are open at the end are the same on all engines: none comes out.
            warnings.simplefilter("ignore", WindrowWarning)
            return self._found(engine(self.pipeline, None if self.input.clock_step is None else self._now))

    # Engines ask for the time of a batch when all sinks have taken the one before.

    def _take_batch(self, batch: int, elements: Sequence[Event]) -> None:
        self._batches.add(batch)

    def _now(self) -> int:
        assert self.input.clock_step is not None
        return _CLOCK_START + self.input.clock_step * len(self._batches)

    def _found(self, result: PipelineResult) -> dict[int, Found]:
        counters: defaultdict[int, dict[str, Mapping[str, int]]] = defaultdict(dict)
        for step, counts in result.counters.items():
            _, _, name = step.split(".", 2)
            # Whether the clock passes the last windows depends on the pace of the engine; a replay compares it.
            depends = {"unfired_window_records_dropped"} if name.endswith(".by clock") else set()
            kept = {counter: count for counter, count in sorted(counts.items()) if counter not in depends}
            if kept:
                counters[int(name.partition(".")[0])][name] = kept
        return {
            number: Found({name: _plain_keys(keys) for name, keys in outputs.of(result).items()}, counters[number])
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
    if isinstance(value, Loose):
        return ["loose", value.key, value.at, value.value]
    if isinstance(value, Noted):
        return [_plain(value.key), _plain(value.numbers)]
    if isinstance(value, Summary):
        return [_plain(part) for part in (value.key, value.found, value.start, value.end)]
    if isinstance(value, GlobalWindow):
        return "global"
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    raise TypeError(f"random pipelines have no elements of type {type(value).__name__}")

"""Runs cases on engines, and reports each case whose output is not what was expected."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.differential.cases import Engine, Found, Json, Prepared

_SHOWN_BEFORE = 2

Engines: TypeAlias = Mapping[str, Engine]
"""How to run a pipeline, by the name of the engine. The first one is the reference."""


@dataclass(frozen=True)
class Failure:
    """Cases that an engine gets wrong.

    Attributes:
        numbers: The case; several where they fail only when one query runs them all.
        engine: The engine.
        report: How to run it again, the plan, the input, and what differs.
    """

    numbers: tuple[int, ...]
    engine: str
    report: str


@dataclass
class Checked:
    """How cases went.

    Attributes:
        reference: What the first engine gave for each case.
        failures: What went wrong.
    """

    reference: dict[int, Found] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def check(prepared: Prepared, engines: Engines, stored: Mapping[int, Found] | None = None) -> Checked:
    """Run cases of one group on all engines, and compare what they give.

    Args:
        prepared: The cases.
        engines: The engines.
        stored: What is expected; by default what the first engine gives.
    """
    checked = Checked()
    for engine in engines:
        found = _run(prepared, engine, engines)
        if isinstance(found, _Raised):
            checked.failures += _raised(prepared, engine, engines, stored, found)
            continue
        expected = stored
        if not checked.reference:
            checked.reference = found
        elif stored is None:
            expected = checked.reference
        if expected is None:
            continue
        for number in prepared.numbers:
            lines = list(_differences(expected[number], found[number]))
            if lines:
                checked.failures.append(_failure(prepared, number, engine, engines, expected, lines))
    return checked


@dataclass(frozen=True)
class _Raised:
    error: Exception

    def lines(self) -> list[str]:
        return ["".join(traceback.format_exception(self.error)).rstrip()]


def _run(prepared: Prepared, engine: str, engines: Engines) -> dict[int, Found] | _Raised:
    try:
        return prepared.run(engines[engine])
    except Exception as error:  # whatever an engine raises is a finding
        return _Raised(error)


def _raised(
    prepared: Prepared, engine: str, engines: Engines, stored: Mapping[int, Found] | None, raised: _Raised
) -> list[Failure]:
    """The engine failed: which case is it?"""
    failures: list[Failure] = []
    if len(prepared.numbers) > 1:
        only = {name: run for name, run in engines.items() if name in (engine, next(iter(engines)))}
        failures = [
            failure
            for number in prepared.numbers
            for failure in check(prepared.alone(number), only, stored).failures
            if failure.engine == engine
        ]
    if failures:
        return failures
    return [Failure(tuple(prepared.numbers), engine, _report(prepared, engine, raised.lines()))]


def _failure(
    prepared: Prepared, number: int, engine: str, engines: Engines, expected: Mapping[int, Found], lines: list[str]
) -> Failure:
    """The report of a case, run alone if it fails alone too."""
    if len(prepared.numbers) > 1:
        alone = prepared.alone(number)
        found = _run(alone, engine, engines)
        again = found.lines() if isinstance(found, _Raised) else list(_differences(expected[number], found[number]))
        if not again:
            others = [f"case {number} differs, but only when one query runs all of these cases", *lines]
            return Failure(tuple(prepared.numbers), engine, _report(prepared, engine, others))
        prepared, lines = alone, again
    return Failure((number,), engine, _report(prepared, engine, lines))


def _report(prepared: Prepared, engine: str, lines: Sequence[str]) -> str:
    numbers = prepared.numbers
    named = f"case {numbers[0]}" if len(numbers) == 1 else f"cases {', '.join(map(str, numbers))}"
    again = " ".join(f"--case {number}" for number in numbers) + " --batch" * prepared.one_batch
    again += " --columns" * (prepared.files is not None and not prepared.live)
    again += " --live" * prepared.live
    again += " --two-inputs" * prepared.two_inputs
    return "\n".join(
        [
            f"FAILED on {engine}: {named}, seed {prepared.seed}",
            f"again: python -m tests.differential --seed {prepared.seed} {again}",
            prepared.pipeline.explain(),
            prepared.input.describe(),
            *lines,
        ]
    )


def _differences(expected: Found, found: Found) -> Iterator[str]:
    for name in sorted(expected.outputs.keys() | found.outputs.keys()):
        wanted, got = expected.outputs.get(name, {}), found.outputs.get(name, {})
        for key in sorted(wanted.keys() | got.keys()):
            yield from _different(f"output {name}, key {key}", wanted.get(key, ()), got.get(key, ()))
    if expected.counters != found.counters:
        yield f"counters: expected {json.dumps(expected.counters)}"
        yield f"          actual   {json.dumps(found.counters)}"


def _different(where: str, expected: Sequence[Json], found: Sequence[Json]) -> Iterator[str]:
    # As text, so that 1, 1.0 and true are three values.
    wanted, got = [json.dumps(element) for element in expected], [json.dumps(element) for element in found]
    if wanted == got:
        return
    first = next(
        (place for place, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got))
    )
    yield f"{where}: different from element {first} on"
    for title, elements in (("expected", wanted), ("actual", got)):
        yield f"  {title}:"
        # What came right before tells where in the stream this is; the rest of what is equal tells nothing.
        shown = max(first - _SHOWN_BEFORE, 0)
        if shown:
            yield f"    {shown} elements that are equal"
        yield from (f"    {place} {element}" for place, element in enumerate(elements[shown:], start=shown))

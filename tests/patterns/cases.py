"""Cases of patterns that an engine runs, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tests.conformance import runner
from tests.conformance.cases import Case, CaseError, Fields, Json, decode, encode
from tests.conformance.compare import Differences
from tests.conformance.elements import Element, Record
from tests.conformance.engines import (
    STEP,
    Computed,
    ElementStep,
    Engine,
    Observed,
    RestoreStep,
    ScriptPipeline,
    Step,
    WatermarkStep,
)
from tests.conformance.operator_cases import ReadStep, RunCase, read_steps
from tests.patterns.building import Event, key_of, pattern_of, skip_of, value_of
from windrow import DataStream, OutputTag, Pipeline, from_source
from windrow.errors import InvalidArgumentError, UnsupportedOperationError
from windrow.patterns import AfterMatchSkipStrategy, Pattern
from windrow.sinks import CollectSink
from windrow_runtime.testing import PushSource

_LATE: Final = OutputTag("late", Event)
_TIMED_OUT: Final = OutputTag("timed out", dict[str, list[Event]])


@dataclass(frozen=True)
class PatternPipeline:
    """The pipeline of a case, before its elements are put in front of it."""

    pattern: Pattern[Event]
    skip: AfterMatchSkipStrategy
    by_value: bool
    tells_late: bool
    tells_timed_out: bool

    inputs: ClassVar[int] = 1
    calls: ClassVar[None] = None

    @classmethod
    def of(cls, body: Fields) -> PatternPipeline:
        """Reads a case, but for its steps."""
        skip = body.fields_or_none("skip")
        return cls(
            pattern=pattern_of([dict(part.data) for part in body.all_fields("pattern")], body.integer("within_ms", 0)),
            skip=skip_of(None if skip is None else dict(skip.data)),
            by_value=body.text("tie_break", "") == "value",
            tells_late=body.flag("late_output", False),
            tells_timed_out=body.flag("timeout_output", False),
        )

    def compute(self, inputs: Sequence[DataStream[Element]], name: str = STEP) -> Computed:
        """What the pipeline makes of a stream. ``name`` names the step under test."""
        matches = (
            inputs[0]
            .map(_event)
            .key_by(key_of)
            .pattern(
                self.pattern,
                skip=self.skip,
                tie_break=value_of if self.by_value else None,
                late=_LATE if self.tells_late else None,
                timed_out=_TIMED_OUT if self.tells_timed_out else None,
            )
            .apply(_record, name=name)
        )
        late = {1: matches.get_side_output(_LATE).map(_element)} if self.tells_late else {}
        sides = {"timed out": matches.get_side_output(_TIMED_OUT).map(_text)} if self.tells_timed_out else {}
        return Computed(matches, late, sides)


def _event(element: Element) -> Event:
    value = decode(element.value)
    assert isinstance(value, dict)
    return Event(**value)  # type: ignore[arg-type]  # the fields of a case


def _element(event: Event) -> Element:
    return Element.of(event.key, event._asdict())


def _record(parts: dict[str, list[Event]]) -> Record:
    return Record(_key_in(parts), _text(parts))


def _key_in(parts: dict[str, list[Event]]) -> str:
    return next(iter(parts.values()))[0].key


def _text(parts: dict[str, list[Event]]) -> str:
    """The match of a partial or a whole match, the order of the parts in it included."""
    match: list[Json] = [[name, [event.id for event in events]] for name, events in parts.items()]
    return encode([_key_in(parts), match])


def read(case: Case) -> RunCase:
    """Read a case."""
    body = case.body
    for name in ("origin", "note", "tie"):
        if name in body:
            body.raw(name)  # for people
    steps = [Fields(_meant(step.data), f"steps[{number}]") for number, step in enumerate(body.all_fields("steps"), 1)]
    pipeline = PatternPipeline.of(body)
    body.done()
    return RunCase(*read_steps(pipeline, steps, _step))


def _meant(step: object) -> dict[str, Json]:
    """A step with what the text of the format asks for in place of what Flink does."""
    assert isinstance(step, dict)
    meant = {name: value for name, value in step.items() if name != "means"}
    if "means" in step:
        meant["expect"] = step["means"]
    expect = meant.get("expect")
    if isinstance(expect, dict) and expect.get("error") == "skip_missed":
        meant["expect"] = {"error": "unsupported_operation"}
    return meant


def _step(step: Fields) -> Step:
    found: Step
    match step.text("op"):
        case "element":
            timestamp = step.integer_or_none("ts")
            fields: dict[str, Json] = {name: step.raw(name) for name in ("id", "key", "type", "value")}
            found = ElementStep(Element.of(fields["key"], {**fields, "ts": timestamp}), timestamp)
        case "watermark":
            found = WatermarkStep(step.integer("ts"))
        case "snapshot_restore":
            found = RestoreStep()
        case op:
            raise CaseError(f"unknown op {op!r}")
    step.done()
    return found


def compare(pipeline: ScriptPipeline, step: ReadStep, observed: Observed, differences: Differences) -> None:
    """Compare what a step caused with what it is expected to cause."""
    assert isinstance(pipeline, PatternPipeline)
    where, expect = step.title, step.expect
    wanted = list(_wanted(expect))
    given = [(record.value, timestamp) for record, timestamp in observed.emits]
    differences.same_items(f"{where}: matches", [text for text, _ in wanted], [text for text, _ in given])
    for text, times in wanted:
        if times.isdisjoint(timestamp for other, timestamp in given if other == text):
            differences.add(f"{where}: timestamp of {text}", str(sorted(times)), str(given))
    late: list[Json] = [_late(element, timestamp) for _, element, timestamp in observed.late]
    differences.same_items(f"{where}: late", expect.items("late", []), late)
    timed_out: list[Json] = [[_text_of(each), each.integer("ts")] for each in expect.all_fields("timed_out", [])]
    if pipeline.tells_timed_out:
        partial: list[Json] = [[text, at] for _, text, at in observed.side]
        differences.same_set(f"{where}: timed out", timed_out, partial)


def _late(element: Element, timestamp: int | None) -> Json:
    event = _event(element)
    return {"id": event.id, "key": event.key, "ts": timestamp}


def _wanted(expect: Fields) -> Iterator[tuple[str, set[int]]]:
    """The matches of a step, each with the timestamps that it may have."""
    for each in expect.all_fields("matches", []):
        yield _text_of(each), {each.integer("ts"), each.integer("ts_due", each.integer("ts"))}


def _text_of(match: Fields) -> str:
    parts = match.fields("match")
    return encode([match.raw("key"), [[name, parts.raw(name)] for name in parts.data]])


def run_invalid(case: Case, differences: Differences) -> None:
    """A pattern that cannot be built."""
    got = "built"
    try:
        stream = PatternPipeline.of(case.body).compute([from_source(PushSource(Element))]).records
        Pipeline("invalid", stream.sink_to(CollectSink[Record]()))
    except (InvalidArgumentError, UnsupportedOperationError):
        got = "refused"
    differences.equal("the pattern", "refused", got)


def _why_not_in_batches(case: Case) -> str | None:
    if case.kind == "invalid":
        return "it tests what can be built, which is the same for all engines; --engine local runs it"
    return None


_PATTERNS: Final = runner.Language(
    {"invalid": run_invalid}, {"pattern"}, lambda case, _: read(case), compare, _why_not_in_batches
)


def run_cases(cases: Sequence[Case], engine: Engine) -> list[runner.Outcome]:
    """Run cases as :func:`tests.conformance.runner.run_cases` does."""
    told = [replace(case, kind="invalid" if "invalid" in case.body else "pattern") for case in cases]
    return runner.run_cases(told, engine, _PATTERNS)

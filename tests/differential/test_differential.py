"""Random pipelines give on Spark what they give in the interpreter. By hand: ``python -m tests.differential``.

The other tests see to it that a wrong output is found and told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.budget import for_a_night
from tests.differential.__main__ import INTERPRETER, main
from tests.differential.cases import Engine, Found, Prepared
from tests.differential.checking import check
from tests.differential.live import Once, live_engine
from tests.differential.mutating import tidied
from tests.differential.saved import saved_engines
from windrow import Pipeline
from windrow.aggregates import DeclaredAggregate
from windrow.functions.marked import CoGroup, JoinKind, JoinPairs
from windrow.plan import (
    AggregateSpec,
    AsOfJoinNode,
    BroadcastProcessNode,
    EventTimeOrderNode,
    FilterNode,
    FlatMapNode,
    IntervalJoinNode,
    KeyedProcessNode,
    MapNode,
    PatternNode,
    ProcessNode,
    ProcessSpec,
    SideInputNode,
    SideOutputNode,
    Step,
    WindowNode,
)
from windrow.side_inputs.views import DictView, ListView, SingletonView
from windrow.sources import FileSource
from windrow.triggers.composable import AfterCount, AfterProcessingTime
from windrow.windows import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from windrow.windows.spec import Counts, Intervals, Panes
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import Topology, source_of
from windrow_runtime.outputs.result import PipelineResult
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.first_form import FirstForm
from windrow_spark.columnar.forms.join_form import JoinForm
from windrow_spark.columnar.windows.step_windows import RuledWindows
from windrow_spark.physical.columns import ColumnPlanner
from windrow_spark.physical.plan import PhysicalPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: elements of every type.
_SEED = 1


def _on_spark(spark: SparkSession) -> Engine:
    from windrow_runtime.spark import SparkRunner

    return lambda pipeline, clock: SparkRunner(spark, clock=clock).run(pipeline)


def _reports(cases: Prepared, **engines: Engine) -> list[str]:
    """What fails, on these engines beside the interpreter."""
    return [failure.report for failure in check(cases, {**INTERPRETER, **engines}).failures]


@pytest.mark.parametrize("columns", [False, True], ids=["objects", "columns"])
def test_random_pipelines_on_spark(spark: SparkSession, tmp_path: Path, columns: bool) -> None:
    from windrow_runtime.spark import SparkRunner

    cases = Prepared(22, for_a_night(range(12), (1, 2, 5, 6)), files=tmp_path if columns else None)
    told = "elements cross the exchange as columns"
    assert (told in cases.pipeline.explain(SparkRunner(spark))) == columns
    assert bool(_on_columns(cases)) == columns
    checked = check(cases, {**INTERPRETER, "Spark": _on_spark(spark)})
    assert [failure.report for failure in checked.failures] == []
    # A case may draw a step that lets nothing through.
    assert sum(found.size > 0 for found in checked.reference.values()) >= len(cases.numbers) - 1


def _live(folder: Path, numbers: Sequence[int]) -> Prepared:
    return Prepared(22, numbers, files=folder, live=True)


@pytest.mark.classic(reason="runs are counted in this process, and stopped in the middle")
def test_random_pipelines_live_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    cases = _live(tmp_path, for_a_night(range(6), (0, 2)))
    topology = Topology(cases.pipeline.steps)
    assert max(topology.levels.values()) > 1
    assert any(getattr(step.node, "function", None).__class__ is Once for step in topology.keyed)
    assert _reports(cases, live=live_engine(spark)) == []


@pytest.mark.classic(reason="savepoints are refused over Spark Connect")
def test_random_pipelines_go_on_from_a_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    cases = Prepared(22, for_a_night(range(12), (1, 2, 3, 6)), files=tmp_path)
    assert _on_columns(cases)
    engines = saved_engines(spark)
    by_day = {name: engines[name] for name in ("Spark and the interpreter from a savepoint",)}
    assert _reports(cases, **for_a_night(engines, by_day)) == []


def test_steps_by_the_clock_are_drawn_for_live_cases(tmp_path: Path) -> None:
    steps = [step.id.rpartition(".")[2] for step in Topology(_live(tmp_path, range(20)).pipeline.steps).keyed]
    assert {"once", "panes", "totals", "later", "by clock", "twice"} <= set(steps)


@pytest.mark.parametrize(
    ("arguments", "cases"),
    [
        (["--seed", "7"], for_a_night(200, 40)),
        (["--columns", "--seed", "7"], for_a_night(100, 20)),
        (["--two-inputs", "--seed", "7"], for_a_night(60, 20)),
        (["--batch", "--seed", "7"], for_a_night(40, 20)),
        (["--live"], for_a_night(40, 10)),
    ],
    ids=["objects", "declared aggregates", "two inputs", "one batch", "live"],
)
def test_random_pipelines_in_the_interpreter(
    arguments: list[str], cases: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--local", *arguments, "--cases", str(cases)]) == 0
    assert capsys.readouterr().out.endswith(f": {cases} equal, 0 different\n")


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(
            False, id="objects", marks=pytest.mark.thorough(reason="tests/two_inputs runs them on Spark, as objects")
        ),
        pytest.param(True, id="columns"),
    ],
)
def test_random_pipelines_of_two_inputs_on_spark(spark: SparkSession, tmp_path: Path, columns: bool) -> None:
    # Those of the day have the joins on columns, and no more than two levels.
    numbers = for_a_night(range(12), (3, 4, 8, 11))
    cases = Prepared(21, numbers, files=tmp_path if columns else None, two_inputs=True)
    assert bool(_joins_on_columns(cases)) == columns
    assert _reports(cases, Spark=_on_spark(spark)) == []


def _has_columns(step: Step) -> None:
    if not isinstance(source_of(step), FileSource):
        raise DeclinedError("no columns")


def _on_columns(cases: Prepared) -> list[ColumnarForm]:
    """The forms of the windows that an engine with the columns of files runs on them, as Spark does."""
    return [form for form in _forms(cases) if isinstance(form, ColumnarForm)]


def _joins_on_columns(cases: Prepared) -> list[JoinForm]:
    """The forms of the joins that such an engine runs on columns."""
    return [form for form in _forms(cases) if isinstance(form, JoinForm)]


def _forms(cases: Prepared) -> list[object]:
    plan = PhysicalPlan(Topology(cases.pipeline.steps), ColumnPlanner(_has_columns))
    return [step.form for step in plan.keyed.values()]


_ASSIGNERS = (TumblingEventTimeWindows, SlidingEventTimeWindows, EventTimeSessionWindows, GlobalWindows)
_ON_CLOCK = (TumblingProcessingTimeWindows, SlidingProcessingTimeWindows, ProcessingTimeSessionWindows)


def test_declared_aggregates_of_all_windows_run_on_columns_and_so_do_distinct_and_first(tmp_path: Path) -> None:
    drawn = [
        form
        for seed in (19, 28)
        for first in range(0, 160, 20)
        for form in _forms(Prepared(seed, range(first, first + 20), files=tmp_path))
    ]
    assert {form.value is None for form in drawn if isinstance(form, FirstForm)} == {True, False}
    forms = [form for form in drawn if isinstance(form, ColumnarForm)]
    found = Counter(
        (type(form.step.node.assigner), form.late_tag is not None, form.windows.lateness > 0)
        for form in forms
        if isinstance(form.step.node, WindowNode)
    )
    assert {kind for kind, _, _ in found} == {*_ASSIGNERS, *_ON_CLOCK}
    # Windows of all time and of the clock have no late elements.
    shapes = {(kind, late, kept) for kind in _ASSIGNERS[:3] for late in (False, True) for kept in (False, True)}
    assert shapes <= found.keys()
    ruled = [form.windows for form in forms if isinstance(form.windows, RuledWindows)]
    assert {windows.slices.is_global for windows in ruled if isinstance(windows.rule, Counts)} == {False, True}
    timed = [windows.rule for windows in ruled if isinstance(windows.rule, Intervals)]
    assert {(bool(rule.interval), rule.by_clock) for rule in timed} >= {(True, False), (False, True)}
    assert {rule.purges for rule in timed} == {False, True}
    paned = [windows.rule for windows in ruled if isinstance(windows.rule, Panes)]
    assert {(rule.discards, rule.retracts) for rule in paned} == {(False, False), (True, False), (False, True)}
    assert {type(each) for rule in paned for each in rule.conditions} == {AfterCount, AfterProcessingTime}
    assert len(forms) >= 30
    nodes = [form.step.node for form in forms if form.routes[0].has_stamps]
    assert {type(node.assigner) for node in nodes if isinstance(node, WindowNode)} == set(_ASSIGNERS[:3])


def test_declared_aggregates_come_with_columns_alone(tmp_path: Path) -> None:
    declared = {}
    for files in (None, tmp_path):
        steps = Topology(Prepared(19, range(20), files=files).pipeline.steps).keyed
        specs = [step.node.function for step in steps if isinstance(step.node, WindowNode)]
        declared[files] = [
            spec for spec in specs if isinstance(spec, AggregateSpec) and isinstance(spec.aggregate, DeclaredAggregate)
        ]
    assert not declared[None]
    assert len(declared[tmp_path]) > 5


def test_staggered_windows_patterns_and_elements_in_order_are_drawn() -> None:
    drawn: Counter[type] = Counter()
    for first in range(0, 100, 20):
        for step in Topology(Prepared(7, range(first, first + 20)).pipeline.steps).keyed:
            drawn[type(step.node)] += 1
            assigner = step.node.assigner if isinstance(step.node, WindowNode) else None
            if isinstance(assigner, (TumblingEventTimeWindows, TumblingProcessingTimeWindows)):
                # They are staggered where one instance has all elements.
                drawn[type(assigner)] += assigner.stagger is WindowStagger.NATURAL
    assert min(drawn[PatternNode], drawn[EventTimeOrderNode]) > 1
    assert min(drawn[TumblingEventTimeWindows], drawn[TumblingProcessingTimeWindows]) > 0


def test_steps_of_two_inputs_of_all_kinds_are_drawn_and_declared_joins_run_on_columns(tmp_path: Path) -> None:
    joins: Counter[object] = Counter()
    drawn: set[object] = set()
    views: Counter[type] = Counter()
    retained: set[bool] = set()
    functions: set[type] = set()

    def kind(step: Step) -> object:
        """The kind of a join, the class of another function of windows, or the class of the step."""
        function = step.node.function if isinstance(step.node, WindowNode) else None
        process = function.process if isinstance(function, ProcessSpec) else step.node
        return process.kind if isinstance(process, JoinPairs) else type(process)

    for first in range(0, 100, 20):
        cases = Prepared(19, range(first, first + 20), files=tmp_path, two_inputs=True)
        joins.update(kind(form.step) for form in _joins_on_columns(cases))
        for step in Topology(cases.pipeline.steps).steps:
            node = step.node
            if node.is_keyed and (node.name or "").endswith(".both"):
                drawn |= {type(node), kind(step)}
            if isinstance(node, SideInputNode):
                views.update(map(type, node.views))
            elif isinstance(node, AsOfJoinNode):
                retained.add(node.retention is not None)
            elif any(isinstance(each, SideInputNode) for each in node.inputs):
                functions.add(type(node))
    # The watermarks of some inputs look at each element, so that nothing runs on columns there.
    assert set(joins) == {IntervalJoinNode, *JoinKind}
    assert sum(joins.values()) >= 20
    steps = {WindowNode, IntervalJoinNode, AsOfJoinNode, KeyedProcessNode, BroadcastProcessNode, SideInputNode}
    assert drawn == {*steps, *JoinKind, CoGroup}
    assert min(views[view] for view in (SingletonView, DictView, ListView)) > 2
    assert retained == {False, True}
    assert functions == {MapNode, FlatMapNode, FilterNode, ProcessNode, SideOutputNode}


@pytest.mark.parametrize("first", range(0, for_a_night(100, 40), 20))
def test_what_functions_change_is_seen_by_nobody_else(first: int) -> None:
    def tidy(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        with tidied():
            return LocalRunner(clock=clock, fast=False).run(pipeline)

    checked = check(Prepared(7, range(first, first + 20)), {"tidy functions": tidy, **INTERPRETER})
    assert [failure.report for failure in checked.failures] == []


def test_nothing_is_late_in_one_batch() -> None:
    several, one = (Prepared(7, range(20), one_batch=one_batch).run(_right) for one_batch in (False, True))
    assert _dropped(several) > 0
    assert _dropped(one) == 0


def _dropped(cases: Mapping[int, Found]) -> int:
    counters = [counts for found in cases.values() for counts in found.counters.values()]
    return sum(counts.get("late_records_dropped", 0) for counts in counters)


def _without_the_last(collected: dict[int, list[Any]]) -> None:
    _largest(collected).pop()


def _backwards(collected: dict[int, list[Any]]) -> None:
    _largest(collected).reverse()


def _twice(collected: dict[int, list[Any]]) -> None:
    elements = _largest(collected)
    elements.append(elements[0])


def _largest(collected: dict[int, list[Any]]) -> list[Any]:
    return max(collected.values(), key=len)


_right: Engine = INTERPRETER["the interpreter with its faster forms"]


def _broken(change: Callable[[dict[int, list[Any]]], None]) -> Engine:
    """An engine that gives something wrong."""

    def run_wrongly(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        result = _right(pipeline, clock)
        collected = dict(result._collected)
        change(collected)
        return PipelineResult(pipeline, result.counters, result.written, collected)

    return run_wrongly


@pytest.mark.parametrize("change", [_without_the_last, _backwards, _twice])
def test_a_wrong_output_is_found(change: Callable[[dict[int, list[Any]]], None]) -> None:
    checked = check(Prepared(_SEED, [4]), {**INTERPRETER, "the broken one": _broken(change)})
    assert [(failure.numbers, failure.engine) for failure in checked.failures] == [((4,), "the broken one")]


def test_a_case_that_differs_is_reported_alone() -> None:
    case = Prepared(_SEED, [4])
    checked = check(Prepared(_SEED, range(8)), {**INTERPRETER, "the broken one": _broken_case(4)})
    (failure,) = checked.failures
    lines = failure.report.splitlines()
    assert failure.numbers == (4,)
    assert lines[:2] == [
        f"FAILED on the broken one: case 4, seed {_SEED}",
        f"again: python -m tests.differential --seed {_SEED} --case 4",
    ]
    assert case.pipeline.explain() in failure.report
    assert case.input.describe() in failure.report
    (difference,) = [number for number, line in enumerate(lines) if line.startswith("output 4.0, key ")]
    assert lines[difference].endswith(": different from element 0 on")
    assert lines[difference + 1] == "  expected:"
    assert "  actual:" in lines[difference + 1 :]


def _broken_case(number: int) -> Engine:
    def run_wrongly(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        (sink,) = [end.node.sink for end in pipeline.sinks if end.node.sink.describe() == f"collect {number}.0"]

        def change(collected: dict[int, list[Any]]) -> None:
            collected[id(sink)] = collected[id(sink)][1:]

        return _broken(change)(pipeline, clock)

    return run_wrongly


def test_a_difference_of_many_cases_together_is_reported() -> None:
    def only_together(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        alone = not any(end.node.sink.describe() == "collect 5.0" for end in pipeline.sinks)
        return (_right if alone else _broken_case(4))(pipeline, clock)

    checked = check(Prepared(_SEED, [4, 5]), {**INTERPRETER, "the broken one": only_together})
    (failure,) = checked.failures
    assert failure.numbers == (4, 5)
    assert "case 4 differs, but only when one query runs all of these cases" in failure.report
    assert "--case 4 --case 5" in failure.report


def test_counters_are_compared() -> None:
    def miscounting(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        result = _right(pipeline, clock)
        counters = {
            step: {name: count + 1 for name, count in of_step.items()} for step, of_step in result.counters.items()
        }
        return PipelineResult(pipeline, counters, result.written, result._collected)

    checked = check(Prepared(_SEED, range(8)), {**INTERPRETER, "the broken one": miscounting})
    assert checked.failures
    assert all("counters: expected" in failure.report for failure in checked.failures)


def test_an_engine_that_raises_is_reported_with_the_case() -> None:
    def raising(pipeline: Pipeline, clock: Callable[[], int] | None) -> PipelineResult:
        if any(end.node.sink.describe() == "collect 4.0" for end in pipeline.sinks):
            raise ValueError("no such thing")
        return _right(pipeline, clock)

    checked = check(Prepared(_SEED, range(8)), {**INTERPRETER, "the broken one": raising})
    (failure,) = checked.failures
    assert failure.numbers == (4,)
    assert failure.report.endswith("ValueError: no such thing")


def test_expected_outputs_are_kept_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "expected.json"
    assert main(["--local", "--cases", "6", "--seed", "3", "--write", str(file)]) == 0
    assert main(["--local", "--against", str(file)]) == 0
    assert capsys.readouterr().out.endswith("6 equal, 0 different\n")
    content = json.loads(file.read_text())
    number, case = next((number, case) for number, case in content["cases"].items() if case["outputs"])
    elements = next(iter(next(keys for keys in case["outputs"].values() if keys).values()))
    elements.append("something else")
    file.write_text(json.dumps(content))
    assert main(["--local", "--against", str(file)]) == 1
    told = capsys.readouterr().out
    assert f"FAILED on the interpreter: case {number}, seed 3" in told
    assert f"FAILED on the interpreter with its faster forms: case {number}, seed 3" in told
    assert told.endswith("5 equal, 1 different\n")


def test_a_file_of_other_cases_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "expected.json"
    assert main(["--local", "--cases", "2", "--write", str(file)]) == 0
    content = json.loads(file.read_text())
    content["cases"]["1"]["digest"] = "of something else"
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["--local", "--against", str(file)]) == 2
    assert "another case 1 of seed 1" in capsys.readouterr().err
    file.write_text("[]")
    assert main(["--local", "--against", str(file)]) == 2
    assert "no file of expected outputs" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["--batch", "--columns", "--two-inputs", "--live"])
@pytest.mark.parametrize("use", ["--against", "--write"])
def test_files_of_outputs_are_of_cases_of_one_kind(kind: str, use: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--local", kind, use, "never read"])
    assert caught.value.code == 2
    assert "files of expected outputs are of cases" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--cases", "0"], ["--cases", "-1"], ["--case", "-1"]])
def test_to_compare_nothing_is_no_success(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--local", *arguments])
    assert caught.value.code == 2

"""Each format of ``explain()`` shows each plan: of random pipelines, of the conformance cases and of the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from examples import (
    card_fraud,
    clicks_and_impressions,
    climate,
    dataflow_paper,
    dead_letters,
    declared_aggregates,
    leaderboard,
    orders_and_payments,
    rules_for_alerts,
    sensor_min,
    sessions,
    word_count,
)
from tests.conformance.batch_engine import BatchEngine
from tests.conformance.cases import load
from tests.conformance.runner import run_cases
from tests.differential.cases import Prepared
from tests.dsl.plan_formats import check_whole
from tests.dsl.plans import in_time, plan
from windrow import DataStream, OutputTag, Pipeline, from_source
from windrow.plan import Form
from windrow.plan.explained.step_view import views_of
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.topology import Topology
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.testing import PushSource
from windrow_spark.lowering import physical_plan

# Any in this module: streams of every type.

ROOT = Path(__file__).parents[2]


class OnColumns:
    """Tells the forms that Spark has, without a session."""

    def forms(self, pipeline: Pipeline) -> dict[str, Form]:
        return physical_plan(Topology(pipeline.steps)).forms()


@pytest.mark.parametrize("first", range(0, 60, 20))
@pytest.mark.parametrize(("with_files", "two_inputs"), [(False, False), (True, False), (False, True), (True, True)])
def test_random_pipelines(tmp_path: Path, first: int, with_files: bool, two_inputs: bool) -> None:
    files = tmp_path if with_files else None
    pipeline = Prepared(7, range(first, first + 20), files=files, two_inputs=two_inputs).pipeline
    check_whole(pipeline, OnColumns())
    joins = [view for view in views_of(pipeline.steps, {}) if view.members]
    assert bool(joins) == two_inputs
    assert not any("Tagged" in view.text + (view.element_type or "") for view in views_of(pipeline.steps, {}))


class Explaining:
    """A runner that checks what is shown of a pipeline before it runs it, once of those that show the same."""

    shown: ClassVar[set[str]] = set()

    def __init__(self, runner: LocalRunner) -> None:
        self._runner = runner

    def run(self, pipeline: Pipeline, *, drain: bool) -> PipelineResult:
        text = pipeline.explain(self._runner)
        if text not in self.shown:
            check_whole(pipeline, self._runner)
            self.shown.add(text)
        return self._runner.run(pipeline, drain=drain)


def test_cases_of_conformance() -> None:
    cases = [case for file in sorted((ROOT / "tests" / "conformance").glob("*.json")) for case in load(str(file))]
    run_cases(cases, BatchEngine(lambda _, clock: Explaining(LocalRunner(clock=clock))))
    assert len(Explaining.shown) > 10


def timestamp(element: Any) -> int:
    return int(element.at)


def two(
    build: Callable[..., DataStream[Any]], left: list[Any], right: list[Any], late: OutputTag[Any] | None
) -> Pipeline:
    joined = build(in_time(left, timestamp), in_time(right, timestamp))
    return plan(joined, *([] if late is None else [joined.get_side_output(late)]))


PLANS: dict[str, Callable[[], Pipeline]] = {
    "card_fraud": lambda: plan(card_fraud.build(card_fraud.PAYMENTS)),
    "clicks_and_impressions": lambda: two(
        clicks_and_impressions.build, clicks_and_impressions.IMPRESSIONS, clicks_and_impressions.CLICKS, None
    ),
    "climate": lambda: plan(climate.build(climate.READINGS)),
    "dataflow_paper": lambda: plan(
        *[figure.sum_up(from_source(PushSource(int)).key_by(lambda number: "all")) for figure in dataflow_paper.FIGURES]
    ),
    "dead_letters": lambda: dead_letters.build(dead_letters.LINES, CollectSink(), CollectSink()),
    "declared_aggregates": lambda: plan(declared_aggregates.build(Path("none"))),
    "leaderboard": lambda: plan(
        leaderboard.team_scores(from_source(PushSource(leaderboard.Play))),
        leaderboard.user_totals(from_source(PushSource(leaderboard.Play))),
    ),
    "orders_and_payments": lambda: two(
        orders_and_payments.build, orders_and_payments.ORDERS, orders_and_payments.PAYMENTS, orders_and_payments.LATE
    ),
    "rules_for_alerts": lambda: plan(
        rules_for_alerts.build(
            from_source(PushSource(rules_for_alerts.Reading)), from_source(PushSource(rules_for_alerts.Limit))
        )
    ),
    "sensor_min": lambda: sensor_min.build(Path("in"), Path("out")).pipeline,
    "sessions": lambda: plan(sessions.build(sessions.CLICKS)),
    "word_count": lambda: plan(word_count.build(word_count.LINES)),
}


@pytest.mark.parametrize("name", PLANS)
def test_examples(name: str) -> None:
    pipeline = PLANS[name]()
    check_whole(pipeline, None)
    check_whole(pipeline, OnColumns())
    assert "windrow." not in pipeline.explain()


def test_no_example_is_left_out() -> None:
    assert {file.stem for file in (ROOT / "examples").glob("*.py")} - {"generate_readings", "capture_postgres"} == set(
        PLANS
    )

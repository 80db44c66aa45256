"""Checkpoints that get another plan in their place, and plans that grow while their checkpoint goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.test_changed_savepoints import BOUNDARY, DISORDER, Plan, Visit, in_order, totals, undisturbed, visits
from tests.spark.test_columns import readings, stamped, write
from windrow import Pipeline
from windrow.errors import CheckpointError, IncompatibleStateError, InvalidArgumentError, WindrowWarning
from windrow.sinks import CollectSink
from windrow_runtime.savepoint import rescale, take, upgrade
from windrow_runtime.spark import SparkRunner
from windrow_spark.savepoint import in_place, restoring

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.classic(reason="savepoints are refused over Spark Connect")

# Any in this module: results of every type.


class Killed(BaseException):
    """Stands for the end of the process."""


def killing(function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """Makes a function at whose begin or end the process dies."""

    def run(*args: Any, **options: Any) -> Any:
        if after:
            function(*args, **options)
        raise Killed

    return run


def test_a_checkpoint_gets_another_plan_without_the_former_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call dies at each of its steps, and is done again."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    before = Plan(folder)
    stopped = before.of(SparkRunner(spark, checkpoint=checkpoint, partitions=2).run(before.pipeline, drain=False))
    write(folder, range(2, 4))
    after = Plan(folder, is_changed=True)
    files = {file.relative_to(checkpoint) for file in checkpoint.rglob("*") if file.is_file()}
    renamed = {"means": "averages"}
    for module, name, is_after in (
        (in_place, "restore", False),
        (restoring, "_move_written", False),
        (restoring, "_move_written", True),
        (restoring, "clear_written", True),
        (restoring, "copy_logs", False),
        (restoring, "copy_logs", True),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, killing(getattr(module, name), after=is_after))
            with pytest.raises(Killed):
                upgrade(checkpoint, after.pipeline, renamed=renamed, partitions=3, spark=spark)
        if name != "restore":
            with pytest.raises(CheckpointError, match="was interrupted while it began the checkpoint from a savepoint"):
                SparkRunner(spark, checkpoint=checkpoint).run(before.pipeline)
            with pytest.raises(
                CheckpointError, match="finish that first: windrow upgrade, with the arguments that it had"
            ):
                rescale(checkpoint, before.pipeline, partitions=5, spark=spark)
    with pytest.warns(WindrowWarning, match="the plan has changed since the run before") as caught:
        saved = upgrade(checkpoint, after.pipeline, renamed=renamed, partitions=3, spark=spark)
    assert "gone is gone, and so is its state" in str(caught[0].message)
    assert saved == tmp_path / "checkpoint.upgraded"
    # All files of the checkpoint are there, in the place from which they can be moved back.
    kept = {file.relative_to(saved / "former") for file in (saved / "former").rglob("*") if file.is_file()}
    assert {file for file in files if file.name != "in-use"} <= kept
    # The process may have died behind the last step, and the same call has nothing to do but to say it again.
    with pytest.warns(WindrowWarning, match="gone is gone, and so is its state"):
        assert upgrade(checkpoint, after.pipeline, renamed=renamed, partitions=3, spark=spark) == saved
    for other in (after, before):
        with pytest.raises(InvalidArgumentError, match="of an earlier call is still there"):
            upgrade(checkpoint, other.pipeline, spark=spark)
    rest = after.of(SparkRunner(spark, checkpoint=checkpoint, partitions=3).run(after.pipeline))
    with pytest.raises(InvalidArgumentError, match="of an earlier call is still there"):
        upgrade(checkpoint, after.pipeline, renamed=renamed, partitions=3, spark=spark)
    expected = undisturbed(folder)
    assert in_order(stopped["means"] + rest["averages"]) == in_order(expected["means"])
    assert in_order(stopped["seen"] + rest["seen"]) == in_order(expected["seen"])


def test_an_upgrade_that_is_refused_leaves_the_checkpoint_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    plan = Plan(folder)
    first = plan.of(SparkRunner(spark, checkpoint=checkpoint, partitions=1).run(plan.pipeline, drain=False))
    keyed = stamped(readings(folder)).key_by(lambda r: r.number or 0, int)
    other: Any = totals(keyed, "totals", 50)  # type: ignore[arg-type]
    with pytest.raises(IncompatibleStateError, match="key type was"):
        upgrade(checkpoint, Pipeline("changes", other.sink_to(CollectSink[Any]())), spark=spark)
    with pytest.raises(InvalidArgumentError, match="renamed names a step that"):
        upgrade(checkpoint, plan.pipeline, renamed={"nothing": "totals"}, spark=spark)
    assert not (tmp_path / "checkpoint.upgraded").exists()
    second = plan.of(SparkRunner(spark, checkpoint=checkpoint).run(plan.pipeline))
    expected = undisturbed(folder)
    assert in_order(first["means"] + second["means"]) == in_order(expected["means"])


def grown(folder: Path, **other: Any) -> Plan:
    more = {"visits": lambda keyed: visits(keyed, is_long=True), "fresh": lambda keyed: totals(keyed, "fresh", 100)}
    return Plan(folder, **(more | other))


def test_a_plan_grows_while_its_checkpoint_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyed step and an aggregate more. The run that begins with them dies at each of its steps."""
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    before, after = Plan(folder), grown(folder)
    stopped = before.of(
        SparkRunner(spark, checkpoint=tmp_path / "first", partitions=2).run(before.pipeline, drain=False)
    )
    # It began from a savepoint, which the program still names.
    take(tmp_path / "first", before.pipeline, tmp_path / "saved", spark=spark)
    runner = SparkRunner(spark, checkpoint=checkpoint, savepoint=tmp_path / "saved", renamed={"gone": "gone"})
    nothing = before.of(runner.run(before.pipeline, drain=False))
    assert not any(nothing[name] for name in ("means", "totals", "visits", "seen"))
    write(folder, range(2, 4))
    for module, name, is_after in (
        (in_place, "write_for_change", True),
        (restoring, "clear_written", True),
        (restoring, "copy_logs", True),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, killing(getattr(module, name), after=is_after))
            with pytest.raises(Killed):
                runner.run(after.pipeline, drain=False)
    with pytest.warns(WindrowWarning, match="the plan has changed since the run before") as caught:
        first = after.of(runner.run(after.pipeline, drain=False))
    said = str(caught[0].message)
    assert ".fresh, " in said
    assert "is new, and begins empty" in said
    assert "and aggregate 1 (" in said
    assert not (tmp_path / "checkpoint.grown").exists()
    second = after.of(runner.run(after.pipeline))  # says nothing again
    rest = {name: [*first[name], *second[name]] for name in first}
    expected = undisturbed(folder)
    for name in ("means", "totals", "seen", "gone"):
        assert in_order(stopped[name] + rest[name]) == in_order(expected[name])
    old = [Visit(each.sensor, each.start, each.end, each.readings) for each in rest["visits"]]
    assert in_order(stopped["visits"] + old) == in_order(expected["visits"])
    whole = [each for each in expected["gone"] if each[1] >= BOUNDARY + DISORDER]
    assert in_order(each for each in rest["fresh"] if each[1] >= BOUNDARY + DISORDER) == in_order(whole)
    assert len(whole) > 3


def test_what_is_no_growth_is_refused_as_before(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write(folder, range(2))
    before = Plan(folder)
    stopped = before.of(SparkRunner(spark, checkpoint=checkpoint, partitions=2).run(before.pipeline, drain=False))
    for plan, refused, partitions in (
        (Plan(folder, is_changed=True), "totals: assigner was|averages.* is new", 2),
        (grown(folder, nameless=lambda keyed: totals(keyed, None, 100)), "is new", 2),  # it could be another one
        (grown(folder), "the parallelism of a checkpoint cannot change", 3),
    ):
        with pytest.raises(IncompatibleStateError, match=refused):
            SparkRunner(spark, checkpoint=checkpoint, partitions=partitions).run(plan.pipeline)
    assert not (tmp_path / "checkpoint.grown").exists()
    rest = before.of(SparkRunner(spark, checkpoint=checkpoint).run(before.pipeline))
    assert in_order(stopped["seen"] + rest["seen"]) == in_order(undisturbed(folder)["seen"])

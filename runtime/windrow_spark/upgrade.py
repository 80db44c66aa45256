"""Says whether a pipeline may go on from a checkpoint, without a run and without Spark's JVM."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from windrow import Pipeline
from windrow.addresses.paths import local_path
from windrow.addresses.redaction import redact_address
from windrow.errors import InvalidArgumentError
from windrow_runtime.operators.topology import topology_of
from windrow_spark.checkpoint.alike import alike_in
from windrow_spark.checkpoint.folder import Checkpoint, Description
from windrow_spark.checkpoint.plan_shape import harmless_changes
from windrow_spark.checkpoint.stored_plan import RefusedChanges, refused_changes, shapes_of, stored_on_columns
from windrow_spark.lowering import per_partition, physical_plan, time_of
from windrow_spark.physical.plan import PhysicalPlan
from windrow_spark.savepoint.fitting import PlanChange
from windrow_spark.savepoint.in_place import growth
from windrow_spark.sources.scanner import count_logged, scanner_of


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What becomes of a checkpoint's state in a pipeline.

    Attributes:
        kept: The harmless changes of each keyed step that reads its state, by the step with its line.
        unreadable: A line for each change for which a run is refused.
        moved: A line for each exchanged or replaced stream for which a run is refused unless the user accepts it.
        hint: What to do if a run is refused.
        begun: A line for each step, source or aggregate that is new, and begins empty.
        alike: A line for each step, input of a step or source that only its place tells from another one.
    """

    kept: Mapping[str, Sequence[str]]
    unreadable: Sequence[str]
    moved: Sequence[str]
    hint: str
    begun: Sequence[str]
    alike: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A checkpoint, and the description of the plan that its runs have stored."""

    checkpoint: Checkpoint
    description: Description

    @property
    def batches(self) -> int:
        """The number of batches that were planned; without any, a run begins anew and takes every plan."""
        return self.checkpoint.last_planned() + 1

    def upgrade(self, pipeline: Pipeline, accepted: Collection[str] = ()) -> Upgrade:
        """Compares a pipeline with the stored plan as a run does when it starts.

        Args:
            pipeline: The pipeline that shall go on.
            accepted: The ids or names of steps that may take other streams, as ``SparkRunner(accept_changes=...)``.

        Raises:
            IncompatibleStateError: If the stream of the checkpoint is at its end.
            CheckpointError: If a file of the checkpoint is damaged or missing.
            UnsupportedOperationError: If a source cannot go on from any checkpoint.
        """
        checkpoint, topology = self.checkpoint, topology_of(pipeline)
        checkpoint.check_open(drain=False)
        for step in topology.sources:
            scanner_of(step).check_resumable(checkpoint)
        plan = physical_plan(topology, stored=stored_on_columns(checkpoint, topology))
        # The settings that a session decides are fixed when a checkpoint begins.
        time = time_of(plan, own_clock=False, per_partition=per_partition(topology, checkpoint, lambda: False))
        refused = refused_changes(checkpoint, self.description, plan, time, accepted)
        begun = growth(checkpoint, self.description, pipeline, PlanChange(accepted=accepted)) if refused.lines else None
        kept = self._kept(plan, refused.lines)
        if begun is not None:
            refused = RefusedChanges([], [])
        if not refused.lines:
            sources = count_logged(topology.sources) if begun is None else None
            checkpoint.check_whole(sources, stateful=bool(self.description.steps))
        alike = list(map(str, alike_in(plan)))
        return Upgrade(kept, refused.unreadable, refused.moved, refused.hint, begun or [], alike)

    def _kept(self, plan: PhysicalPlan, refused: Sequence[str]) -> dict[str, list[str]]:
        kept: dict[str, list[str]] = {}
        for name, shape in shapes_of(plan).items():
            (step,) = (step for step in plan.topology.keyed if plan.state_ids[step.id] == name)
            if name not in self.description.steps or any(line.startswith(f"{step.where}: ") for line in refused):
                continue
            before = self.description.steps[name]
            kept[step.where] = [*harmless_changes(before, shape)]
            if before["form"] is None and plan.keyed[step.id].on_columns is not None:
                kept[step.where].append("its state stays in Python objects, where a new checkpoint has columns")
        return kept


def stored_run(path: str) -> StoredRun:
    """Opens the checkpoint in a folder, and changes nothing in it.

    Raises:
        InvalidArgumentError: If the path is a file, is not in a mounted file system, or has no checkpoint of windrow's.
        CheckpointError: If its description is damaged or missing.
    """
    folder = local_path(path)
    if folder is None:
        raise InvalidArgumentError(
            "a checkpoint is checked without a session of Spark's, which opens other file systems",
            given=redact_address(path),
            expected="a checkpoint in a mounted file system, or a copy of one",
        )
    if Path(folder).is_file():
        raise InvalidArgumentError(
            "the checkpoint is a file",
            given=path,
            expected="the folder of a run on Spark",
            hint="CHECKPOINT comes before FILE: were the two swapped?",
        )
    checkpoint = Checkpoint(Path(folder).absolute())
    description = checkpoint.description()
    if description is None:
        raise InvalidArgumentError(
            "there is no checkpoint of a pipeline", given=path, expected="the folder of a run on Spark"
        )
    return StoredRun(checkpoint, description)

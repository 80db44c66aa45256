"""Makes the time of the batch after a savepoint, where Spark kept the watermark so far, or where steps are new."""

from __future__ import annotations

from dataclasses import replace

from windrow.plan import Pipeline
from windrow_runtime.operators.topology import timestamps_of
from windrow_runtime.operators.watermarks import TrackerMemory, WatermarkTracker, watermarks_of
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.clock import BatchClock, TrackerNote, encoded_note
from windrow_spark.exchange.classes import state_codec
from windrow_spark.savepoint.description import SavepointDescription
from windrow_spark.savepoint.fitting import FittedPlan
from windrow_spark.savepoint.log_files import next_watermark
from windrow_spark.shipping import known_classes


def clock_of_spark(
    checkpoint: Checkpoint, pipeline: Pipeline, fit: FittedPlan, saved: SavepointDescription
) -> BatchClock:
    """Returns the time of the batch after a savepoint; steps have the names that they have in the plan.

    Steps that go on keep their watermark. A new one is under the same if all that it reads was there; what a new source
    feeds has none before its first elements.
    """
    plan, topology = fit.plan, fit.plan.topology
    watermark = next_watermark(checkpoint, saved.batch)
    previous: dict[str, int] = {}
    for step in topology.keyed:
        name, own = plan.state_ids[step.id], topology.timestamp_steps[step.id]
        if own and name in fit.steps:
            previous[name] = saved.steps[fit.steps[name].origin].watermark
        elif own and all(plan.state_ids[each] in fit.origins for each in own):
            previous[name] = saved.watermark
    codec = state_codec(known_classes(topology.steps), allow_pickled=pipeline.allow_pickled_state)
    trackers: dict[str, TrackerNote] = {}
    for step in topology.timestamps:
        name = plan.state_ids[step.id]
        if name in fit.origins:
            tracker = WatermarkTracker(step, timestamps_of(step))
            tracker.watermark = watermark
            trackers[name] = encoded_note(codec, step, tracker.memory())
    # Steps without state, such as process functions without keys, have no other name than their id.
    stateless = [
        step.id
        for step in topology.steps
        if step.node.has_watermark and not step.node.is_keyed and topology.timestamp_steps[step.id]
        if all(plan.state_ids[each] in fit.origins for each in topology.timestamp_steps[step.id])
    ]
    return BatchClock(
        watermarks=dict.fromkeys([*previous, *stateless], watermark), previous=previous, trackers=trackers
    )


def fitted_clock(clock: BatchClock, fit: FittedPlan) -> BatchClock:
    """Returns the time of a batch of a savepoint, by the names that steps have in the plan.

    Keyed steps that go on keep their watermark. Others are under that of what they read, if all of it was there: the
    ids of unions and sinks are their places in the plan, and may be those of other ones in the savepoint.
    """
    plan, topology = fit.plan, fit.plan.topology
    clock = clock.renamed({origin: name for name, origin in fit.origins.items()})
    notes = {step.id: clock.trackers.get(plan.state_ids[step.id]) for step in topology.timestamps}
    inputs = {step: TrackerMemory(note[0], note[1], note[2], {}) for step, note in notes.items() if note is not None}
    names = {step.id: plan.state_ids[step.id] for step in topology.keyed}
    before = {
        step: clock.watermarks[name] for step, name in names.items() if name in fit.steps and name in clock.watermarks
    }
    watermarks: dict[str, int] = {}
    previous: dict[str, int] = {}
    for step, reached in watermarks_of(topology, inputs, before).items():
        name, own = names.get(step, step), topology.timestamp_steps[step]
        if step in before:
            watermarks[name], previous[name] = before[step], clock.previous.get(name, before[step])
        elif own and inputs.keys() >= {*own}:
            watermarks[name] = previous[name] = reached
    return replace(clock, watermarks=watermarks, previous=previous)

"""Stores the shape of a plan in its checkpoint, and compares the plan of a later run with that shape."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import windrow
from windrow.errors import IncompatibleStateError
from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow_runtime.inputs.reader import reader_of
from windrow_runtime.operators.topology import Topology
from windrow_spark.checkpoint.alike import warn_of_alike
from windrow_spark.checkpoint.folder import Checkpoint, Description, StoredSource
from windrow_spark.checkpoint.plan_shape import Shape, merged, step_changes, step_shape
from windrow_spark.checkpoint.stored_streams import check_accepted, key_changes, sinks_of, stream_changes, streams_of
from windrow_spark.clock import BatchClock, ClockFiles
from windrow_spark.key_groups import KeyGroups
from windrow_spark.physical.plan import TURNED_OFF, Objects, PhysicalPlan
from windrow_spark.progress import reported_times
from windrow_spark.storage.group_record import FINGERPRINT_BYTES

EVENT_TIME: Final = "event time"
PROCESSING_TIME: Final = "processing time"
KEPT_TIME: Final = "a watermark or clock that windrow keeps"
"""The values of ``Description.time``: who keeps the time by which a query runs."""

_DEFAULT_GROUPS: Final = 2
_HINT: Final = (
    "windrow upgrade CHECKPOINT FILE moves the state into the changed plan, if that can go on with it; a step with a "
    "name= keeps its state when others move, and begins empty if it is new; else give the plan a checkpoint of its own"
)
_MOVED_HINT: Final = (
    "put each stream and sink where it was; if the change is meant, and what is stored goes with it, say so once: "
    "SparkRunner(accept_changes=[...]), or --accept-changes of the command, with the ids or names of these steps"
)

_UNKNOWN_KEYS: Final = "the type of the keys"
_UNKNOWN_HINT: Final = (
    "give the plan a checkpoint of its own; or say the type in both plans, key_by(selector, key_type), and run the "
    "former one with it first: then keys of the same type may be accepted"
)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """The parallelism given to the runner, and that of the session, which is the default."""

    partitions: int | None
    key_groups_per_partition: int | None
    session_partitions: int

    def groups(self) -> KeyGroups:
        """Returns the key groups of a new checkpoint."""
        return KeyGroups.balanced(
            self.partitions or self.session_partitions, self.key_groups_per_partition or _DEFAULT_GROUPS
        )


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """The parts of a stored plan that a run needs to find its state."""

    groups: KeyGroups
    fingerprint: bytes  # the plan's number in all stored state
    folders: Mapping[str, str]  # the folder of each source, by the id of its step
    time: str = EVENT_TIME  # who keeps the time
    columnar: frozenset[str] = frozenset()  # the ids of the steps whose state lies in columns
    sinks: Mapping[str, str] | None = None  # the labels of sinks in their targets, by step id; None: by their order


def resume(
    checkpoint: Checkpoint,
    plan: PhysicalPlan,
    time: str,
    wanted: Parallelism,
    accepted: Collection[str] = (),
    *,
    begins: bool = False,
    is_kept: bool = True,
) -> StoredPlan:
    """Read the plan that the checkpoint stores, or store that of this run if it is the first.

    State keeps its form: a step that began on Python objects goes on so, even if it could run on columns by now. The
    kind of time by which the query runs cannot change, nor the parallelism. If an earlier version left the watermark to
    Spark, which showed it to the first level of keyed steps alone, windrow keeps it from now on.

    ``accepted`` has the ids and names of steps that may take other streams, and compute other values from them.
    A query ``begins`` if no batch was ever planned: a plan that is stored then is that of a run that was refused. If
    the checkpoint ``is_kept`` for later runs, sinks that these could not tell apart are refused, and a warning says
    what they could exchange unseen.
    """
    topology, names = plan.topology, plan.state_ids
    check_accepted(topology.steps, accepted)
    shapes = shapes_of(plan)
    stored, stored_streams = checkpoint.description(), checkpoint.streams.read()
    sinks = sinks_of(stored_streams, plan, accepted, begins=is_kept and (begins or stored is None))
    streams = replace(streams_of(plan), sinks=sinks.all)
    if stored is None or begins:
        identifier = uuid.uuid4().hex if stored is None else stored.id
        if stored is not None:
            checkpoint.forget_elements()
        for step_id, step in plan.keyed.items():
            if step.on_columns is not None:
                shapes[names[step_id]]["form"] = step.on_columns.state_text
        stored = _new_description(identifier, plan, time, wanted.groups(), shapes)
        checkpoint.plan.write(stored)
        if is_kept:
            warn_of_alike(plan)
    else:
        _check_parallelism(stored, wanted, checkpoint)
        refused = refused_changes(checkpoint, stored, plan, time, accepted)
        if refused.lines:
            raise IncompatibleStateError(
                "the checkpoint belongs to another plan",
                given="; ".join(refused.lines),
                expected="steps that can read what is stored, and take what they took",
                where=str(checkpoint.path),
                hint=refused.hint,
            )
        for step_id, planned in plan.keyed.items():
            name = names[step_id]
            if planned.on_columns is not None and stored.steps[name]["form"] is not None:
                shapes[name]["form"] = planned.on_columns.state_text
        steps = {name: merged(stored.steps[name], shape) for name, shape in shapes.items()}
        if stored.time != time:
            _adopt_clock(
                checkpoint, {step.id: names[step.id] for step in topology.keyed if topology.timestamp_steps[step.id]}
            )
        if steps != stored.steps or stored.time != time:
            # The next run has to read the state that this one stores.
            stored = replace(stored, steps=steps, time=time)
            checkpoint.plan.write(stored)
    if stored_streams != streams:
        checkpoint.streams.write(streams)
    return StoredPlan(
        KeyGroups.balanced(stored.partitions, stored.groups),
        bytes.fromhex(stored.fingerprint),
        {step.id: source.folder for step, source in zip(topology.sources, stored.sources, strict=True)},
        time,
        frozenset(step.id for step in topology.keyed if stored.steps[names[step.id]]["form"] is not None),
        sinks.labels,
    )


@dataclass(frozen=True, slots=True)
class RefusedChanges:
    """The changes of a plan for which it may not go on from a checkpoint, a line each, and what to do."""

    unreadable: Sequence[str]  # some of them keep it from reading what is stored, so nothing can be accepted
    moved: Sequence[str]  # streams or sinks were exchanged or replaced, which a user may accept

    @property
    def lines(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.unreadable, *self.moved)

    @property
    def hint(self) -> str:
        """What the user can do."""
        if any(f": {_UNKNOWN_KEYS} " in line for line in self.unreadable):
            return _UNKNOWN_HINT
        return _HINT if self.unreadable else _MOVED_HINT


def refused_changes(
    checkpoint: Checkpoint, stored: Description, plan: PhysicalPlan, time: str, accepted: Collection[str] = ()
) -> RefusedChanges:
    """Compares a plan with the one that a checkpoint stores, and writes nothing."""
    before = checkpoint.streams.read()  # None: an older version wrote the checkpoint
    now, shapes = streams_of(plan), shapes_of(plan)
    keys: dict[str, list[str]] = {}
    if before is not None:
        both = now.steps.keys() & before.steps.keys()
        keys = {name: key_changes(before.steps[name], now.steps[name]) for name in both}
    unreadable = list(_changes(stored, plan, time, shapes, keys))
    moved = [] if before is None else list(stream_changes(before, now, plan, accepted))
    moved += sinks_of(before, plan, accepted).refused
    # No run begins with what is unreadable, whatever is accepted.
    return RefusedChanges([*unreadable, *moved], []) if unreadable else RefusedChanges([], moved)


def shapes_of(plan: PhysicalPlan) -> dict[str, Shape]:
    """Returns the shapes of the keyed steps of a plan, by the names under which their state is stored."""
    return {plan.state_ids[step.id]: step_shape(plan, step) for step in plan.topology.keyed}


def _adopt_clock(checkpoint: Checkpoint, stored_ids: Mapping[str, str]) -> None:
    """Stores the watermark that Spark has kept so far, for steps of the batch with which the next run begins.

    It is the watermark of all sources before this batch, as the progress file has it. If it is not known, it begins
    anew with the elements to come.
    """
    planned = checkpoint.last_planned()
    batch = planned + 1 if checkpoint.is_committed(planned) else planned
    if batch == 0:
        return
    times = reported_times(checkpoint.progress_file)
    bound = None if times is None else times.bound(batch)
    watermark = MIN_TIMESTAMP if bound is None else bound
    clock = BatchClock(watermarks=dict.fromkeys(stored_ids, watermark), ended=watermark == MAX_TIMESTAMP)
    ClockFiles(checkpoint.clock_folder, stored_ids).write(batch, clock)


def stored_on_columns(checkpoint: Checkpoint, topology: Topology) -> frozenset[str]:
    """Returns the ids of the keyed steps whose state a checkpoint has in columns."""
    stored = checkpoint.description() if checkpoint.has_run() else None
    shapes = {} if stored is None else stored.steps
    names = PhysicalPlan(topology).state_ids
    return frozenset(step.id for step in topology.keyed if shapes.get(names[step.id], {}).get("form") is not None)


def unstored(plan: PhysicalPlan, groups: KeyGroups) -> StoredPlan:
    """Returns the plan of a run without a checkpoint, which is not stored."""
    return StoredPlan(groups, bytes(FINGERPRINT_BYTES), {}, columnar=plan.on_columns)


def _new_description(
    identifier: str, plan: PhysicalPlan, time: str, groups: KeyGroups, shapes: Mapping[str, Shape]
) -> Description:
    fingerprint = blake2b(json.dumps(shapes, sort_keys=True).encode(), digest_size=FINGERPRINT_BYTES)
    return Description(
        windrow=windrow.__version__,
        id=identifier,
        partitions=groups.partitions,
        groups=groups.count // groups.partitions,
        fingerprint=fingerprint.hexdigest(),
        time=time,
        sources=[StoredSource(reader_of(step).stored_kind, str(step.index)) for step in plan.topology.sources],
        steps=shapes,
    )


def _check_parallelism(stored: Description, wanted: Parallelism, checkpoint: Checkpoint) -> None:
    for name, before, value in (
        ("partitions", stored.partitions, wanted.partitions),
        ("key_groups_per_partition", stored.groups, wanted.key_groups_per_partition),
    ):
        if value is not None and value != before:
            raise IncompatibleStateError(
                "the parallelism of a checkpoint cannot change: its state lies where its keys were hashed to",
                given=f"{name}={value}",
                expected=f"{name}={before}, as in the first run",
                where=str(checkpoint.path),
                hint=f"leave {name} out to go on with what is stored, or begin a new checkpoint",
            )


def _changes(
    stored: Description, plan: PhysicalPlan, time: str, shapes: Mapping[str, Shape], keys: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yields the changes that keep a plan from reading the stored state.

    ``keys`` has the changes of the functions that take the keys of a step, if these are stored.
    """
    topology, names = plan.topology, plan.state_ids
    for step in topology.keyed:
        name = names[step.id]
        if name not in stored.steps:
            yield f"{step.where} is new"
            continue
        stored_shape, shape = stored.steps[name], shapes[name]
        for change in step_changes(stored_shape, shape, same_key=keys.get(name) == []):
            yield f"{step.where}: {change}"
        unknown = [when for when, each in (("was", stored_shape), ("is", shape)) if each["key type"] is None]
        if unknown and keys.get(name):
            # State of keys of another type would stay in the checkpoint, and no element would find it.
            yield f"{step.where}: {_UNKNOWN_KEYS} {' and '.join(unknown)} not known, and {'; '.join(keys[name])}"
    for name, shape in stored.steps.items():
        if name not in shapes:
            part = shape["assigner"]["text"] if "assigner" in shape else shape["function"]
            yield f"{name.lstrip('#')} ({part}) is gone"
    # Windrow may take over a watermark from Spark, which deeper levels of keyed steps never saw.
    is_adopted = (stored.time, time) == (PROCESSING_TIME, KEPT_TIME) and topology.depth > 1
    if stored.time != time and not is_adopted:
        yield f"the query ran by {stored.time} and would run by {time}"
    # Spark identifies sources by their order alone.
    before = [source.kind for source in stored.sources]
    now = [reader_of(step).stored_kind for step in topology.sources]
    if before != now:
        yield f"the sources were {', '.join(before)} and are {', '.join(now)}"
    for step in topology.keyed:
        columns = stored.steps.get(names[step.id], {}).get("form")
        form = plan.keyed[step.id].form
        if columns is None:
            continue
        if isinstance(form, Objects):
            reason = "columns are turned off" if form is TURNED_OFF else form.reason
            yield f"{step.where}: its state lies in columns, and it would run without ({reason})"
        elif form.state_text_of(fields_of_record(stored.steps[names[step.id]]["record type"])) != columns:
            yield f"{step.where}: the columns of its state were {columns} and are {form.state_text}"


def fields_of_record(record_type: object) -> list[str] | None:
    """Returns the fields that a record class had; None: the elements were no records."""
    return list(record_type["fields"]) if isinstance(record_type, Mapping) and "fields" in record_type else None

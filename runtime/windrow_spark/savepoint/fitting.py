"""Fits a savepoint to a plan that may have changed since: by the names of steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from windrow.errors import IncompatibleStateError, InvalidArgumentError, similar_name
from windrow.plan import Pipeline, Step
from windrow.windows.spec import AlignedWindows, GapWindows
from windrow_runtime.operators.choose import operator_for
from windrow_runtime.operators.errors import DeclinedError
from windrow_runtime.operators.topology import topology_of
from windrow_runtime.operators.windows.general import WindowOperator
from windrow_spark.checkpoint.code_mark import Mark
from windrow_spark.checkpoint.feeds import feeds_of
from windrow_spark.checkpoint.folder import Description
from windrow_spark.checkpoint.plan_shape import Shape, merged, step_changes
from windrow_spark.checkpoint.stored_plan import fields_of_record, shapes_of
from windrow_spark.checkpoint.stored_streams import (
    StoredStreams,
    StreamMarks,
    key_changes,
    sinks_of,
    stream_changes,
    streams_of,
)
from windrow_spark.columnar.forms.columnar_form import ColumnarForm
from windrow_spark.columnar.forms.first_form import PassingForm
from windrow_spark.columnar.forms.kept_objects import KeptForm, check_kept
from windrow_spark.columnar.forms.result_type import OnColumns
from windrow_spark.columnar.kernels.kernel import CombinedKernel, Kernel
from windrow_spark.columnar.windows.geometry import Slices
from windrow_spark.lowering import physical_plan
from windrow_spark.physical.plan import Objects, PhysicalPlan
from windrow_spark.savepoint.description import COLUMNS, OBJECTS, SavedStep
from windrow_spark.savepoint.new_aggregates import is_of_aggregates, new_aggregates, places_of, unfilled_fields
from windrow_spark.savepoint.source_places import PlacedSources, SourcePlaces

_HINT: Final = (
    'give steps names, and say which were renamed: SparkRunner(savepoint=..., renamed={"old": "new"}); what cannot go '
    "on gets another name, and begins empty"
)

_ACCEPT: Final = "if you meant these changes, accept_changes=[...] with the names of the steps takes them"


@dataclass(frozen=True, slots=True)
class FittedStep:
    """A step of a plan that goes on from a savepoint.

    Attributes:
        origin: The name of its state in the savepoint.
        places: Where each aggregate of ``into`` or ``combine`` was among those of the savepoint; None: it is new.
            Without any, contents stay as they are.
        is_other: Whether its windows have other bounds now, so that those that are open become entries of their own.
        former: The form that its columns have in the savepoint; None: state stays in its form.
        widens: Whether these columns get those of new aggregates. Else they become objects.
    """

    origin: str
    places: tuple[int | None, ...] = ()
    is_other: bool = False
    former: KeptForm | None = None
    widens: bool = False


@dataclass(frozen=True, slots=True)
class FittedPlan:
    """A plan, and how each of its steps goes on from a savepoint.

    Attributes:
        origins: The names of steps in the savepoint, by those in the plan; also those of timestamp-assigning steps.
        steps: By the names of the steps' state in the plan; steps that begin empty are left out.
        on_columns: The ids of the steps whose state is in columns from now on.
        shapes: What the checkpoint stores of keyed steps.
        streams: What it stores of their streams; None if the savepoint has nothing of them.
        sources: Where its sources were in the savepoint.
        changes: A line for each change that the user has to know.
        gone: The names of steps in the savepoint that the plan does not have.
        other_forms: A line for each step whose state leaves its columns.
        unfilled: A line for each field that does not take the None of a new aggregate in an open window.
    """

    plan: PhysicalPlan
    origins: Mapping[str, str]
    steps: Mapping[str, FittedStep]
    on_columns: frozenset[str]
    shapes: Mapping[str, Shape]
    streams: StoredStreams | None
    sources: SourcePlaces
    changes: Sequence[str]
    gone: Sequence[str]
    other_forms: Sequence[str]
    unfilled: Sequence[str]

    def check_filled(self) -> None:
        """Refuses fields that an open window cannot fill, to which no element comes that a new aggregate takes."""
        if self.unfilled:
            raise IncompatibleStateError(
                "an aggregate begins empty in windows that are open, and its field does not take None",
                given="; ".join(self.unfilled),
                expected="a field of a type such as int | None, or an aggregate such as count, which gives 0",
                hint="when the windows that are open now have ended, a later version of the program may leave out None",
            )

    @property
    def grows(self) -> bool:
        """Whether the plan has all that it had, and more: keyed steps with names, sources, or aggregates."""
        new = [step for step in self.plan.topology.keyed if self.plan.state_ids[step.id] not in self.steps]
        # Steps without names are numbered, and a new one would take the number of another.
        if self.gone or self.sources.gone or any(step.name is None or step.scope for step in new):
            return False
        changed = self.steps.values()
        has_more = bool(new) or None in self.sources.places or any(step.places for step in changed)
        return has_more and not any(step.is_other for step in changed)


@dataclass(frozen=True, slots=True)
class PlanChange:
    """The names and streams of steps that may be others than before.

    Attributes:
        renamed: The new names of steps and sources, by those of before.
        accepted: The ids or names of steps that may take other streams.
        columnar: Whether steps may run on columns.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    accepted: Collection[str] = ()
    columnar: bool = True


def fitted(
    pipeline: Pipeline,
    saved: Mapping[str, SavedStep],
    stored: Description,
    streams: StoredStreams | None,
    change: PlanChange,
) -> FittedPlan:
    """Fits a savepoint to a plan.

    Args:
        pipeline: The pipeline that goes on from the savepoint.
        saved: What the savepoint has of each step.
        stored: The plan whose state it has.
        streams: The streams of that plan.
        change: The names and streams of steps that may be others.

    Raises:
        InvalidArgumentError: If ``renamed`` names steps that are not there.
        IncompatibleStateError: If a step cannot go on with the state of its name; the error has a line for each.
    """
    topology = topology_of(pipeline)
    names = PhysicalPlan(topology).state_ids
    of_sources = [step.name for step in topology.sources if step.name is not None]
    origins = _origins(stored, streams, [*names.values(), *of_sources], change.renamed)
    from_columns = [step_id for step_id, name in names.items() if _form_in(saved, origins.get(name)) == COLUMNS]
    plan = physical_plan(topology, stored=from_columns)
    fit = _Fit(plan, saved, stored, streams, origins, columnar=change.columnar)
    for step in topology.keyed:
        fit.add(step)
    sources = fit.sources()
    own_streams = fit.streams(sources)
    hint = _HINT
    if own_streams is not None and not fit.refused:
        hint = f"{_ACCEPT}; else {_HINT}"
        fit.refused += stream_changes(own_streams, streams_of(plan), plan, change.accepted)
        fit.add_sinks(own_streams, change.accepted)
    if fit.refused:
        raise IncompatibleStateError(
            "the savepoint belongs to another plan",
            given="; ".join(fit.refused),
            expected="steps that can go on with the state that the savepoint has for their names",
            where=pipeline.name,
            hint=hint,
        )
    gone = sorted(stored.steps.keys() - {each.origin for each in fit.steps.values()})
    fit.changes += [f"{name.lstrip('#')} is gone, and so is its state" for name in gone]
    on_columns = frozenset(fit.on_columns)
    return FittedPlan(
        plan,
        origins,
        fit.steps,
        on_columns,
        fit.shapes,
        own_streams,
        sources,
        fit.changes,
        gone,
        fit.other_forms,
        fit.unfilled,
    )


def _form_in(saved: Mapping[str, SavedStep], origin: str | None) -> str | None:
    step = None if origin is None else saved.get(origin)
    return None if step is None else step.form


def _origins(
    stored: Description, streams: StoredStreams | None, names: Sequence[str], renamed: Mapping[str, str]
) -> dict[str, str]:
    """Returns the names of steps in a savepoint, by those in a plan."""
    names_before = {*stored.steps}
    if streams is not None:
        names_before |= {*streams.steps, *(source.name for source in streams.sources if source.name is not None)}
    for old, new in renamed.items():
        for name, those, where in ((old, names_before, "the savepoint"), (new, names, "the plan")):
            if name not in those:
                raise InvalidArgumentError(
                    f"renamed names a step that {where} does not have",
                    given=f"{old!r}: {new!r}",
                    expected=", ".join(sorted(those)),
                    hint=similar_name(name, those),
                )
    old_names = {new: old for old, new in renamed.items()}
    if len(old_names) < len(renamed):
        raise InvalidArgumentError(
            "renamed gives several steps of a savepoint one new name",
            given=", ".join(f"{old!r}: {new!r}" for old, new in renamed.items()),
            expected="a name for each",
        )
    return {
        name: old_names.get(name, name)
        for name in names
        if name in old_names or (name in names_before and name not in renamed)
    }


@dataclass
class _Fit:
    """Fits one step after the other."""

    plan: PhysicalPlan
    saved: Mapping[str, SavedStep]
    stored: Description
    stored_streams: StoredStreams | None
    origins: Mapping[str, str]
    columnar: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        self._shapes = shapes_of(self.plan)
        self.steps: dict[str, FittedStep] = {}
        self.on_columns: list[str] = []
        self.shapes: dict[str, Shape] = {}
        self.refused: list[str] = []
        self.changes: list[str] = []
        self.other_forms: list[str] = []
        self.unfilled: list[str] = []

    def add(self, step: Step) -> None:
        """Fits a keyed step."""
        name = self.plan.state_ids[step.id]
        origin = self.origins.get(name)
        shape = dict(self._shapes[name])
        form = self.plan.keyed[step.id].on_columns if self.columnar else None
        if origin is None or origin not in self.stored.steps:
            self.changes.append(f"{step.where} is new, and begins empty")
        else:
            if origin not in self.saved:
                self.refused.append(f"{step.where}: the savepoint was taken for a plan without it")
                return
            before = dict(self.stored.steps[origin])
            fitted_step = self._step(step, origin, before, shape)
            if fitted_step is None:
                return
            self.steps[name] = fitted_step
            shape = merged(before, shape)
            has_left = fitted_step.former is not None and not fitted_step.widens
            if self.saved[origin].form == OBJECTS or has_left:
                form = None
        if form is not None:
            self.on_columns.append(step.id)
        self.shapes[name] = shape | {"form": None if form is None else form.state_text}

    def _step(self, step: Step, origin: str, before: Shape, now: Shape) -> FittedStep | None:
        """Returns how a step goes on; None if it cannot."""
        stored_form = before["form"]
        node = step.node.windows
        compared = {**before, "level": now["level"]}
        is_other = self._has_other_windows(step, origin, before, now)
        if is_other:
            compared["assigner"] = now["assigner"]
        places = None if node is None else places_of(node, before, now)
        if places is not None:
            compared |= {part: value for part, value in now.items() if is_of_aggregates(part)}
            compared = {part: value for part, value in compared.items() if part in now or not is_of_aggregates(part)}
        lines = [*step_changes(compared, now, same_key=self._has_same_key(step, origin))]
        self.refused += [f"{step.where}: {line}" for line in lines]
        if lines:
            return None
        if is_other:
            was, text = before["assigner"]["text"], now["assigner"]["text"]
            self.changes.append(f"{step.where}: windows that are open stay as {was} made them; new ones are {text}")
        if places is not None:
            new = ", ".join(new_aggregates(step, places))
            self.changes.append(f"{step.where}: windows that are open go on, and aggregate {new} begins empty in them")
            self.unfilled += [f"{step.where}: {line}" for line in unfilled_fields(step, places)]
        fitted_step = FittedStep(origin, places or (), is_other)
        if stored_form is None:
            return fitted_step
        return self._from_columns(step, fitted_step, before)

    def _from_columns(self, step: Step, fitted_step: FittedStep, before: Shape) -> FittedStep | None:
        """Returns how a step restores state that was stored in columns: as columns, or as objects."""
        physical = self.plan.keyed[step.id]
        form = physical.form
        why = None if self.columnar else "columns are turned off"
        if isinstance(form, Objects):
            why = form.reason
            if physical.unguarded is None:
                self.refused.append(f"{step.where}: its state lies in columns, and it would run without ({why})")
                return None
            form = physical.unguarded
        fields = fields_of_record(before["record type"])
        is_changed = bool(fitted_step.places) or fitted_step.is_other
        if why is None and not is_changed and form.state_text_of(fields) == before["form"]:
            return fitted_step
        widened = None if why is not None or fitted_step.is_other else _widened(form, fitted_step)
        if widened is not None and widened.state_text_of(fields) == before["form"]:
            return replace(fitted_step, former=widened, widens=True)
        why = why or "its columns would be others"
        try:
            former = _former(form, fitted_step, before)
        except DeclinedError as declined:
            self.refused.append(f"{step.where}: its state cannot leave its columns: {declined}")
            return None
        columns = former.state_text_of(fields)
        if columns != before["form"]:
            self.refused.append(f"{step.where}: the columns of its state were {before['form']}, and would be {columns}")
            return None
        self.other_forms.append(f"{step.where}: its state becomes Python objects, since {why}")
        return replace(fitted_step, former=former)

    def _has_other_windows(self, step: Step, origin: str, before: Shape, now: Shape) -> bool:
        old, new = before.get("assigner"), now.get("assigner")
        if old is None or new is None or old == new or old["class"] != new["class"]:
            return False
        if not _has_fixed_bounds(step) or self.saved[origin].shared:
            return False
        # Panes and withdrawals are more than what lies in a window.
        return old["parameters"] != new["parameters"] and type(operator_for(step, fast=False)) is WindowOperator

    def _has_same_key(self, step: Step, origin: str) -> bool:
        if self.stored_streams is None or origin not in self.stored_streams.steps:
            return False
        now = streams_of(self.plan).steps[self.plan.state_ids[step.id]]
        return key_changes(self.stored_streams.steps[origin], now) == []

    def sources(self) -> SourcePlaces:
        """Finds the sources of the plan in the savepoint."""
        marks = None if self.stored_streams is None else self.stored_streams.sources
        steps, now = self.plan.topology.sources, streams_of(self.plan).sources
        placed = PlacedSources(steps, self.stored.sources, marks, now, self.origins)
        places = placed.found()
        self.refused += placed.refused
        self.changes += placed.changes
        return places

    def add_sinks(self, streams: StoredStreams, accepted: Collection[str]) -> None:
        """Compares the sinks that note batches in their targets."""
        sinks = sinks_of(streams, self.plan, accepted)
        self.refused += sinks.refused
        if streams.sinks is None:
            return
        labels = {each.label for each in streams.sinks}
        new = {step: sink.marks.name for step, sink in sinks.now.items() if sink.label not in labels}
        before = {each.label for each in streams.sinks if not each.is_gone}
        gone = [sink.marks for sink in sinks.gone if sink.label in before]
        # A sink that writes elsewhere is another one, even under its name: its target has no batch of it.
        moved = {*new.values()} & {marks.name for marks in gone} - {None}
        self.changes += [
            f"{step.where}, {name}, writes to another target than before, which gets what comes from now on"
            if name in moved
            else f"{step.where} is a new sink, and gets what comes from now on"
            for step, name in new.items()
        ]
        self.changes += [
            f"the sink {marks.name or marks.target.text} is gone, and gets nothing more"
            for marks in gone
            if marks.name not in moved
        ]

    def streams(self, sources: SourcePlaces) -> StoredStreams | None:
        """Returns the streams of the savepoint, by the names and places that steps and sources have in the plan."""
        stored = self.stored_streams
        if stored is None:
            return None
        now = streams_of(self.plan)
        labels = self._labels(sources)
        steps = {
            name: self._marks(name, stored.steps[origin], labels)
            for name, origin in self.origins.items()
            if origin in stored.steps and name in now.steps
        }
        marks = [
            mark if place is None else replace(stored.sources[place], name=mark.name)
            for mark, place in zip(now.sources, sources.places, strict=True)
        ]
        return replace(stored, sources=marks, steps=steps)

    def _labels(self, sources: SourcePlaces) -> Mapping[str, str]:
        """Returns how marks of inputs name a source or step now, by how those of the savepoint name it."""
        labels = {f"source {before + 1}": f"source {now + 1}" for before, now in sources.by_place.items()}
        keyed = {self.plan.state_ids[step.id] for step in self.plan.topology.keyed}
        steps = {origin: name for name, origin in self.origins.items() if name in keyed and origin in self.stored.steps}
        return labels | {origin.lstrip("#"): name.lstrip("#") for origin, name in steps.items()}

    def _marks(self, name: str, marks: StreamMarks, labels: Mapping[str, str]) -> StreamMarks:
        """Returns the marks of a step with its name in the plan, and those of aggregates by their new numbers."""
        now = streams_of(self.plan).steps[name]
        inputs = {
            part: _fed_by(marks.parts[part], now.parts[part], labels)
            for part in self._inputs_of(name)
            if part in marks.parts and part in now.parts
        }
        marks = replace(marks, parts={**marks.parts, **inputs})
        own = replace(marks, name=now.name)
        step = self.steps.get(name)
        if step is None or not step.places:
            return own
        parts = {part: mark for part, mark in marks.parts.items() if not part.startswith(_TAKES)}
        for number, place in enumerate(step.places, start=1):
            if place is None:
                parts |= {part: mark for part, mark in now.parts.items() if _takes(part, number)}
            else:
                was, becomes = (f"{_TAKES}{each} takes" for each in (place + 1, number))
                parts |= {
                    becomes + part.removeprefix(was): mark
                    for part, mark in marks.parts.items()
                    if _takes(part, place + 1)
                }
        return replace(own, parts=parts)

    def _inputs_of(self, name: str) -> Collection[str]:
        """Returns the parts of the marks of a step that name what feeds it."""
        (step_id,) = (step_id for step_id, each in self.plan.state_ids.items() if each == name)
        return feeds_of(self.plan).inputs_of(self.plan.topology.step(step_id)).keys()


def _fed_by(before: Mark, now: Mark, labels: Mapping[str, str]) -> Mark:
    """Returns the mark of an input that a savepoint has, with the names that sources and steps have now.

    What is new in the plan, and what is gone from it, is left out of the comparison: the warning names it.
    """
    was = {_renamed(label, labels) for label in before.text.split(_BETWEEN)} - {None}
    labels_now = {*labels.values()}
    new = {label for label in now.text.split(_BETWEEN) if _owner(label) not in labels_now}
    if was == {*now.text.split(_BETWEEN)} - new:
        return now
    return replace(before, text=_BETWEEN.join(sorted(label for label in was if label is not None)))


_BETWEEN: Final = ", "
_OF_SIDE: Final = " side output "


def _owner(label: str) -> str:
    return label.partition(_OF_SIDE)[0]


def _renamed(label: str, labels: Mapping[str, str]) -> str | None:
    """Returns the name of a source or step in the plan, and of its side output; None: it is gone."""
    owner, *side = label.partition(_OF_SIDE)
    return None if owner not in labels else "".join((labels[owner], *side))


_TAKES: Final = "what aggregate "


def _takes(part: str, number: int) -> bool:
    """Returns whether a mark is that of what an aggregate takes, by its number."""
    return part.startswith(f"{_TAKES}{number} takes")


def _has_fixed_bounds(step: Step) -> bool:
    """Returns whether the parameters of an assigner may change: a window that is open keeps its bounds, and ends."""
    shape = None if step.node.windows is None else step.node.windows.spec.shape
    return isinstance(shape, AlignedWindows) or (isinstance(shape, GapWindows) and shape.gap is not None)


def _widened(form: OnColumns, step: FittedStep) -> ColumnarForm | None:
    """Returns the form that a step had before it got new aggregates; None: its columns cannot get theirs."""
    were_there = [place is not None for place in step.places]
    if not were_there or not isinstance(form, ColumnarForm) or not form.takes_more(were_there):
        return None
    return replace(form, kernel=_former_kernel(form.kernel, step.places))


def _former_kernel(kernel: Kernel, places: Sequence[int | None]) -> Kernel:
    """Returns the kernel of the aggregates that were there before others came."""
    if not isinstance(kernel, CombinedKernel):
        raise DeclinedError("its aggregates are not combined")
    members = zip(kernel.members, places, strict=True)
    return CombinedKernel([("", member) for member, place in members if place is not None])


def _former(form: OnColumns, step: FittedStep, before: Shape) -> KeptForm:
    """Returns the form that a step had in the savepoint; declined where its state does not become objects."""
    former = check_kept(form)
    if isinstance(former, PassingForm):
        return former
    kernel, windows = former.kernel, former.windows
    if step.places:
        kernel = _former_kernel(kernel, step.places)
    if step.is_other and isinstance(windows, Slices):
        parameters = before["assigner"]["parameters"]
        size = parameters["size"]
        slide, offset = parameters.get("slide", size), parameters.get("offset", 0)
        windows = replace(windows, size=size, slide=slide, offset=offset)
    return replace(former, kernel=kernel, windows=windows)

"""Opens the outputs of sinks, labels sinks of one target, and claims the targets of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from typing import TypeVar

from windrow.distribution import install_hint
from windrow.errors import UnsupportedOperationError
from windrow.plan import Step
from windrow_runtime.outputs.output import Identity, Output
from windrow_runtime.outputs.process_lock import OwnStack
from windrow_runtime.outputs.writer import Target, writer_of

K = TypeVar("K")


def labels_of(targets: Mapping[K, Target], others: Iterable[tuple[str, str]] = ()) -> dict[K, str]:
    """Gives sinks labels by their order: the text of the target, with a number if another one of its kind has that."""
    labels, used = dict[K, str](), set(others)
    for sink, target in targets.items():
        texts = (target.text if number == 1 else f"{target.text}#{number}" for number in count(1))
        labels[sink] = next(text for text in texts if (target.kind, text) not in used)
        used.add((target.kind, labels[sink]))
    return labels


def identities(sinks: Iterable[Step], query: str) -> dict[str, Identity]:
    """Returns the identities of the sinks of a query that runs once, by the ids of their steps."""
    targets = {step.id: writer_of(step).target for step in sinks}
    labels = labels_of({step: target for step, target in targets.items() if target is not None})
    return {step: Identity(query, label) for step, label in labels.items()}


def open_outputs(sinks: Iterable[Step], query: str, identities: Mapping[str, Identity]) -> dict[str, Output]:
    """Make and open the outputs of a query, by the ids of their steps; sinks that have none are passed over."""
    outputs: dict[str, Output] = {}
    try:
        for step in sinks:
            writer = writer_of(step)
            try:
                output = writer.output(identities.get(step.id, Identity(query, "")))
                if output is None:
                    continue
                output.open()
            except ModuleNotFoundError as error:
                raise UnsupportedOperationError(
                    "a library is missing that this sink needs",
                    given=f"{writer.sink.describe()}, without {error.name}",
                    where=step.where,
                    hint=install_hint(writer.extra),
                ) from error
            outputs[step.id] = output
    except BaseException:
        with closing_outputs(outputs):
            raise
    return outputs


def closing_outputs(outputs: Mapping[str, Output]) -> ExitStack:
    """Returns a context that closes all outputs of a query at its end, even if closing one of them fails.

    In a forked process it does nothing.
    """
    stack = OwnStack()
    for output in outputs.values():
        stack.callback(output.close)
    return stack


def check_free(sinks: Iterable[Step], run: str, *, begins: bool) -> None:
    """Refuse sinks whose targets a run may not or cannot write; changes nothing.

    ``run`` is the identity of the checkpoint, or one of the run's own; ``begins`` says whether no batch of the run was
    begun before.
    """
    for step in sinks:
        writer_of(step).check_free(run, begins=begins)


def claim_targets(
    sinks: Sequence[Step], run: str, *, begins: bool, is_live: Callable[[], bool] = lambda: True
) -> ExitStack:
    """Claim the targets of sinks for a run, if :func:`check_free` accepts them all.

    Other runs are refused until the returned stack is closed or ``is_live`` returns False, where targets can be locked.
    Elsewhere :func:`check_owners` finds out that another run took one.
    """
    check_free(sinks, run, begins=begins)
    with OwnStack() as locks:
        for step in sinks:
            release = writer_of(step).lock(is_live)
            if release is not None:
                locks.callback(release)
        # A run may have written a batch, and have ended, before the targets were locked.
        check_free(sinks, run, begins=begins)
        for step in sinks:
            writer_of(step).take_over(run)
        return locks.pop_all()


def check_owners(sinks: Iterable[Step], run: str) -> None:
    """Raises a ``SinkError`` if another run has taken the target of a sink."""
    for step in sinks:
        writer_of(step).check_owner(run)

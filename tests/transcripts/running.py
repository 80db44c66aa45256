"""Runs the cases of transcript files, and says what differed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tests.conformance.runner import Outcome
from tests.transcripts.checking import Pane, UnexpectedPaneError, UnmatchedPaneError, compare
from tests.transcripts.engine import Clock, Engine, Input, NotStatedError, Operation, Watermark
from tests.transcripts.machines import run_machine
from tests.transcripts.paper import paper_cases

# Any in this module: what JSON holds.


def run_file(path: Path, engine: Engine) -> Iterator[Outcome]:
    """Runs all cases of a file, whichever of the formats it has."""
    data = json.loads(path.read_text("utf-8"))
    found: list[tuple[str, Callable[[], None]]] = []
    if data["format"].startswith("dataflow-worked-examples/"):
        found += paper_cases(data, engine)
    elif data["format"].startswith("trigger-state-machine-cases/"):
        found += [(case["name"], partial(run_machine, case)) for case in data["cases"]]
    else:
        found += [(case["name"], partial(run_transcript, case, engine)) for case in data.get("cases", [])]
        found += [(case["name"], partial(run_stream_case, case, engine)) for case in data.get("stream_cases", [])]
    if not found:
        yield Outcome(path.name, "", ("there are no cases in a format that is known",))
    for name, run in found:
        try:
            run()
        except NotStatedError as reason:
            yield Outcome(path.name, name, (), str(reason))
        except Exception as error:
            yield Outcome(path.name, name, (f"{type(error).__name__}: {error}",))
        else:
            yield Outcome(path.name, name, ())


def run_transcript(case: Mapping[str, Any], engine: Engine) -> None:
    """Runs a transcript; one that must fail passes if it is rejected for the right reason."""
    expected = case.get("must_fail")
    kinds = {"unmatched_pane": UnmatchedPaneError, "unexpected_pane": UnexpectedPaneError}
    try:
        _check_steps(case, engine)
    except (UnmatchedPaneError, UnexpectedPaneError) as error:
        if expected is None or not isinstance(error, kinds[expected]):
            raise
    else:
        assert expected is None, f"must be rejected, {expected}"


def _check_steps(case: Mapping[str, Any], engine: Engine) -> None:
    steps = [step for step in case["steps"] if step["op"] != "state"]
    behind = iter(engine(case, operations_of(steps)))
    waiting: list[Pane] = []
    for step in steps:
        if step["op"] == "expect":
            compare(waiting, step["panes"])
            waiting = []
        else:
            _check_none(waiting, step["op"])
            waiting = next(behind)
    _check_none(waiting, "the end")


def _check_none(waiting: list[Pane], before: str) -> None:
    if waiting:
        raise UnexpectedPaneError(f"nobody expects, before {before}: {waiting}")


def operations_of(steps: Sequence[Mapping[str, Any]]) -> list[Operation]:
    """The operations among the steps of a transcript."""
    found: list[Operation] = []
    now = 0
    for step in steps:
        kind = step["op"]
        if kind == "input":
            elements = step.get("elements") or [(stamp, stamp) for stamp in step["timestamps"]]
            found.append(Input(tuple([(int(stamp), value) for stamp, value in elements])))
        elif kind == "watermark":
            found.append(Watermark(step["to"]))
        elif kind == "clock":
            now = step["to"] if "to" in step else now + step["advance"]
            found.append(Clock(now))
        elif kind != "expect":
            raise ValueError(f"a step {kind!r} is not known")
    return found


def run_stream_case(case: Mapping[str, Any], engine: Engine) -> None:
    """Runs a case that lists the panes of each window in order."""
    found: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for pane in chain.from_iterable(engine(case, operations_of(case["steps"]))):
        found[json.dumps(pane.window)].append(pane.values)
    expected = {json.dumps(each["window"]): [sorted(pane) for pane in each["panes"]] for each in case["expect_all"]}
    assert dict(found) == expected, f"expected {expected}, came {dict(found)}"

"""Cases of kind "merging_window_set": the live windows of one key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.conformance.assigners import ScriptedMergingWindows, build_assigner
from tests.conformance.cases import AnyWindow, Case, CaseError, Fields, Json, encode, window_json
from tests.conformance.compare import Differences
from windrow.windows import MergingWindowAssigner
from windrow_runtime.testing import LiveWindows


def run_merging_window_set(case: Case, differences: Differences) -> None:
    """Run a case of this kind."""
    assigner = build_assigner(case.body.fields("assigner"))
    if not isinstance(assigner, MergingWindowAssigner):
        raise CaseError("the assigner does not merge")
    steps = case.body.all_fields("steps")
    case.body.done()
    runner = _Runner(assigner, differences)
    for number, step in enumerate(steps, start=1):
        runner.step(step, f"step {number}, {step.text('op')}")
        step.done()


class _Runner:
    # Any: assigners give windows of every type.
    def __init__(self, assigner: MergingWindowAssigner[Any, Any], differences: Differences) -> None:
        self._assigner = assigner
        self._live: LiveWindows[AnyWindow] = LiveWindows(assigner)
        self._differences = differences

    def step(self, step: Fields, where: str) -> None:
        op = step.text("op")
        if op == "add":
            self._add(step, where)
        elif op == "retire":
            self._retire(step, where)
        elif op == "state_window":
            # Each window keeps its own contents here, so only whether it is known can be told.
            known = step.window("window") in self._live.windows
            self._differences.equal(f"{where}: known", step.raw("one_of") is not None, known)
        elif op == "known":
            got = [window_json(window) for window in self._live.windows]
            self._differences.same_items(f"{where}: windows", step.items("windows"), got)
        elif op == "snapshot_restore":
            self._live = LiveWindows(self._assigner, self._live.windows)
        else:
            raise CaseError(f"unknown op {op!r}")

    def _add(self, step: Fields, where: str) -> None:
        merges = step.raw("merges") if "merges" in step else None
        if isinstance(self._assigner, ScriptedMergingWindows):
            self._assigner.answer(merges)
        elif merges is not None:
            raise CaseError("only a scripted assigner takes merges")
        result, merged = self._live.add(step.window("window"))
        self._differences.equal(f"{where}: result", step.raw("result"), window_json(result))
        got: list[Json] = [
            {"into": window_json(merge.into), "from": _sorted(window_json(source) for source in merge.sources)}
            for merge in merged
        ]
        expected = step.fields_or_none("merged")
        self._differences.same_items(f"{where}: merged", _merges(expected), got)

    def _retire(self, step: Fields, where: str) -> None:
        window = step.window("window")
        if window in self._live.windows:
            self._live.retire(window)
        else:
            self._differences.add(f"{where}: the window", "known", "unknown")


def _merges(expected: Fields | None) -> list[Json]:
    if expected is None:
        return []
    merge = _merge(expected)
    # `into` is null where nothing merged.
    return [] if expected.raw("into") is None else [merge]


def _merge(expected: Fields) -> Json:
    # Which state window a merge keeps and which ones it gives up is for engines that have them.
    for name in ("state_window_one_of", "merged_state_windows_one_of"):
        if name in expected:
            expected.items(name)
    merge: Json = {"into": expected.raw("into"), "from": _sorted(expected.items("from"))}
    expected.done()
    return merge


def _sorted(windows: Iterable[Json]) -> list[Json]:
    return sorted(windows, key=encode)

"""The pages of one key group by themselves, without Spark: what a batch costs that touches few of many keys."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

from benchmarks.section import Claim, Section
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import KeyState, OperatorState, WindowEntry
from windrow_spark.exchange.rows import KeyedElements
from windrow_spark.storage.group_record import FINGERPRINT_BYTES, GroupState, StepRecord
from windrow_spark.storage.object_pages import ObjectPages
from windrow_spark.storage.page_codec import PageCodec
from windrow_spark.storage.values import StateCodec

if TYPE_CHECKING:
    from benchmarks.growth.scale import Scale

__all__ = ["measure_pages"]

_GROUPS: Final = 4
_PLAN: Final = bytes(FINGERPRINT_BYTES)
_NEVER: Final = -(2**63)
_SIZE_MS: Final = 3_600_000
_BATCHES: Final = 3
_SETTLING: Final = 30  # pages become small by and by, while batches touch few keys
_MOST: Final = 1.3


class _Store:
    """Pages in memory, and how often they are asked for."""

    def __init__(self) -> None:
        self._pages: dict[int, bytes] = {}
        self.calls = 0
        self.written = 0

    def get(self, number: int) -> bytes | None:
        self.calls += 1
        return self._pages.get(number)

    def get_all(self, numbers: Sequence[int]) -> list[bytes | None]:
        return list(map(self.get, numbers))

    def put(self, number: int, data: bytes) -> None:
        self.calls += 1
        self.written += len(data)
        self._pages[number] = data

    def remove(self, number: int) -> None:
        self.calls += 1
        del self._pages[number]


def _add_session(state: OperatorState, key: Hashable, at: int) -> None:
    held = state.keys.get(key)
    if held is None:
        window = TimeWindow(at, at + _SIZE_MS)
        state.keys[key] = KeyState({window: WindowEntry((1, 2.5))}, [window], 1)
        state.event_timers.register(key, window, window.end - 1)
    else:
        next(iter(held.windows.values())).contents = (2, at / 7)


def _add_row(state: OperatorState, key: Hashable, at: int) -> None:
    state.table_size = _SIZE_MS
    state.tables.setdefault(0, {})[key] = (1, at / 7)


def _add_note(state: OperatorState, key: Hashable, at: int) -> None:
    # 200 bytes that do not compress.
    state.keys.setdefault(key, KeyState()).state["note"] = random.Random(at).randbytes(200)


def _add_timed_note(state: OperatorState, key: Hashable, at: int) -> None:
    if key not in state.keys:
        state.event_timers.register(key, None, at)
    _add_note(state, key, at)


_FORMS: Final[dict[str, Callable[[OperatorState, Hashable, int], None]]] = {
    "table": _add_row,
    "session": _add_session,
    "notes": _add_note,
    "timed notes": _add_timed_note,
}


class _Group:
    """One key group with a state of one form."""

    def __init__(self, form: str, keys: int) -> None:
        self._add = _FORMS[form]
        self._codec = PageCodec(StateCodec())
        self._random = random.Random(keys)
        self._keys: list[Hashable] = [f"user-{number:07d}" for number in range(keys)]
        self._random.shuffle(self._keys)
        self.store = _Store()
        self._stored = GroupState(steps={"step": StepRecord(0)}).dump(_PLAN)
        for start in range(_GROUPS):
            self._run(self._keys[start::_GROUPS])

    def touch(self, count: int, *, are_same: bool) -> float:
        """Run a batch, on the same keys each time or on others; gives its processor time in seconds."""
        chosen = self._keys[:count] if are_same else self._random.sample(self._keys, count)
        begin = time.process_time()
        self._run(chosen)
        return time.process_time() - begin

    def _run(self, keys: list[Hashable]) -> None:
        group = GroupState.load(self._stored, _PLAN)
        self.record = group.steps["step"]
        pages = ObjectPages(self.record, self._codec, self.store, _GROUPS)
        elements = [KeyedElements(0, keys, keys, [None] * len(keys))]
        for share in pages.shares([], elements, _NEVER, _NEVER):
            state = pages.load(share.pages)
            for chunk in share.after:
                for key in chunk.keys:
                    self._add(state, key, self._random.randrange(10**7))
            pages.save(share.pages, state)
        pages.end_batch()
        self._stored = group.dump(_PLAN)
        self.store.written += len(self._stored)


def measure_pages(scale: Scale) -> Section:
    """One of four key groups, without Spark."""
    section = Section(
        "pages",
        f"one of {_GROUPS} key groups, without Spark: processor time of Python alone",
        (
            "form",
            "touched",
            "which",
            "keys",
            "CPU ms",
            "ratio",
            "calls",
            "written KiB",
            "ratio",
            "pages",
            "bytes per page",
        ),
    )
    gc.disable()  # as in Spark's workers, where collections are rare
    try:
        for form in (form for form in scale.forms if form in _FORMS):
            groups = [_Group(form, keys // _GROUPS) for keys in (scale.keys, 10 * scale.keys)]
            for are_same, touched in product((False, True), scale.touched):
                _add_rows(section, form, touched, groups, scale.keys, are_same=are_same)
            gc.collect()
    finally:
        gc.enable()
    return section


def _add_rows(section: Section, form: str, touched: int, groups: list[_Group], keys: int, *, are_same: bool) -> None:
    which = "the same" if are_same else "others"
    times: list[float] = []
    written: list[float] = []
    for times_keys, group in zip((1, 10), groups, strict=True):
        for _ in range(_SETTLING):
            group.touch(touched // _GROUPS, are_same=are_same)
        before, written_before = group.store.calls, group.store.written
        # The least of some: other work on the machine only adds.
        times.append(min(group.touch(touched // _GROUPS, are_same=are_same) for _ in range(_BATCHES)))
        written.append((group.store.written - written_before) / _BATCHES)
        section.rows.append(
            [
                form,
                f"{touched:,}",
                which,
                f"{times_keys * keys:,}",
                f"{times[-1] * 1_000:.1f}",
                f"{times[-1] / times[0]:.2f}",
                f"{(group.store.calls - before) // _BATCHES:,}",
                f"{written[-1] / 1024:,.0f}",
                f"{written[-1] / written[0]:.2f}",
                f"{group.record.pages:,}",
                f"{group.record.size // group.record.pages:,}",
            ]
        )
    ratio = times[1] / times[0]
    text = f"{form}, {touched:,} keys touched, {which}: {ratio:.2f} times the processor time (at most {_MOST})"
    section.claims.append(Claim(text, ratio <= _MOST, timed=True))

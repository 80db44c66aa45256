"""Pages give back the windows of each key, and those that are alive in the order in which they came to be."""

from __future__ import annotations

import pytest

from tests.spark.page_groups import CODEC
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import KeyState, OperatorState, WindowEntry

FIRST, SECOND = TimeWindow(0, 10), TimeWindow(30, 40)


class Nowhere:
    """Has no segments."""

    def read_segment(self, number: int) -> list[object]:
        raise AssertionError(number)


def no_segments(data: bytes) -> int:
    raise AssertionError("no list is long")


KEYS: dict[str, list[KeyState]] = {
    "alike": [KeyState({FIRST: WindowEntry(1), SECOND: WindowEntry(2)}, [FIRST, SECOND], 2)],
    "another order": [KeyState({SECOND: WindowEntry(2), FIRST: WindowEntry(1)}, [FIRST, SECOND], 2)],
    "a window whose contents were purged": [KeyState({SECOND: WindowEntry(2)}, [FIRST, SECOND], 2)],
    "one key of two": [KeyState({FIRST: WindowEntry(1)}, [FIRST], 1), KeyState({SECOND: WindowEntry(2)}, [FIRST], 1)],
    "windows that do not merge": [KeyState({FIRST: WindowEntry(1), SECOND: WindowEntry(2)})],
}


@pytest.mark.parametrize("name", KEYS)
def test_live_windows_come_back(name: str) -> None:
    state = OperatorState(keys=dict(enumerate(KEYS[name])))
    again = CODEC.load(CODEC.dump(state, no_segments), Nowhere())
    found = [(list(each.windows), each.live, each.arrivals) for each in again.keys.values()]
    assert found == [(list(each.windows), each.live, each.arrivals) for each in KEYS[name]]

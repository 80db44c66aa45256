"""Makes rows that people read of the state of a keyed step: a row for each key, with its windows, state and timers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from windrow.windows import TimeWindow
from windrow_runtime.operators.state.model import NOTHING, UNFIRED_CELL, KeyState, OperatorState

# Any in this module: state is of the user's types, and pyarrow has no types.

_WINDOW: Final = pa.struct(
    [
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("window", pa.string()),
        pa.field("contents", pa.string()),
        pa.field("trigger", pa.string()),
        pa.field("state", pa.string()),
    ]
)
_TIMER: Final = pa.struct(
    [pa.field("time", pa.int64()), pa.field("domain", pa.string()), pa.field("window", pa.string())]
)

STATE_ROWS: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("windows", pa.list_(_WINDOW), nullable=False),
        pa.field("state", pa.string()),
        pa.field("timers", pa.list_(_TIMER), nullable=False),
    ]
)
"""The columns of rows of state. Keys, contents and cells are JSON; times are milliseconds since 1970, UTC.

The start and the end are those of time windows; of others, and beyond the end of time, the text is there alone. What
holds nothing is null.
"""


def json_text(value: object) -> str:
    """Returns a value of the state as JSON; what JSON has no form for is its ``repr``, as a text."""
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):  # such as a dict whose keys are records
        return msgspec.json.encode(repr(value)).decode()


def state_rows(state: OperatorState) -> pa.RecordBatch:
    """Makes a row of :data:`STATE_ROWS` for each key, in the order of keys; those with timers alone come last."""
    timers: defaultdict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    for domain, queue in (("event time", state.event_timers), ("processing time", state.processing_timers)):
        for key, namespace, time in queue:
            window = None if namespace is None else repr(namespace)
            timers[key].append({"time": min(time, MAX_TIMESTAMP), "domain": domain, "window": window})
    rows = [_row(key, key_state, timers.pop(key, [])) for key, key_state in state.keys.items()]
    rows += [_row(key, KeyState(), of_key) for key, of_key in timers.items()]
    return pa.RecordBatch.from_pylist(rows, schema=STATE_ROWS)


def _row(key: Hashable, key_state: KeyState, timers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    windows = [
        {
            "start": _bound(window.start) if isinstance(window, TimeWindow) else None,
            "end": _bound(window.end) if isinstance(window, TimeWindow) else None,
            "window": repr(window),
            "contents": None if entry.contents is NOTHING else json_text(entry.contents),
            "trigger": _cells(entry.trigger_state or {}),
            "state": _cells(entry.window_state or {}),
        }
        for window, entry in key_state.windows.items()
    ]
    ordered = sorted(timers, key=lambda timer: (timer["time"], timer["domain"], timer["window"] or ""))
    return {"key": json_text(key), "windows": windows, "state": _cells(key_state.state), "timers": ordered}


def _bound(time: int) -> int | None:
    """Returns a bound of a window; None beyond the end of time, where windows of its last moment end."""
    return time if MIN_TIMESTAMP <= time <= MAX_TIMESTAMP else None


def _cells(cells: Mapping[str, Any]) -> str | None:
    """Returns cells of state by name as JSON, without the engine's own count; None if there are none."""
    named = {name: value for name, value in cells.items() if name != UNFIRED_CELL}
    return json_text(named) if named else None

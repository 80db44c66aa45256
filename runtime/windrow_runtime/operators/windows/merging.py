"""Adds a window to the live windows of a key, and determines which of them merge."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from windrow.windows import MergingWindowAssigner, TimeWindow, Window
from windrow_runtime.operators.state.live_sessions import LiveSessions

# Any in this module: assigners of elements of every type.

W = TypeVar("W", bound=Window)


class Merged(NamedTuple, Generic[W]):
    """Live windows that became another one."""

    into: W
    sources: list[W]  # in the order in which they came to be, ``into`` among them where it was alive


# Any: merging looks at windows only, never at elements.
def add_window(live: list[W], window: W, assigner: MergingWindowAssigner[Any, W]) -> tuple[W, list[Merged[W]]]:
    """Add ``window`` to the live windows of a key, in place, and merge; returns where it ended up, and the merges."""
    is_new = window not in live
    result = window
    merged: list[Merged[W]] = []
    for merge in assigner.merge_windows([*live, window] if is_new else list(live)):
        merge_sources = set(merge.sources)
        if window in merge_sources:
            result = merge.result
        # A live window that equals the result takes part: its contents are the result's contents.
        sources = [other for other in live if other in merge_sources or other == merge.result]
        if sources == [merge.result]:
            continue
        if sources:
            merged.append(Merged(merge.result, sources))
            position = live.index(sources[0])
            remaining = [other for other in live if other not in sources]
            live[:] = [*remaining[:position], merge.result, *remaining[position:]]
        elif window in merge_sources:
            live.append(merge.result)
    if result == window and window not in live:
        live.append(window)
    return result, merged


def joined_session(live: list[TimeWindow] | LiveSessions, window: TimeWindow) -> tuple[TimeWindow, list[TimeWindow]]:
    """Returns the session that a new one becomes, and the live ones that become it too, in order of their creation.

    Sessions never touch each other, so a new one merges with all that it meets, and with no other.
    """
    start, end = window
    if isinstance(live, LiveSessions):
        met = live.touching(start, end)
    else:
        met = [session for session in live if session[0] <= end and start <= session[1]]
    if not met:
        return window, met
    for known_start, known_end in met:
        start = known_start if known_start < start else start  # noqa: FURB136  min() takes thrice as long
        end = known_end if known_end > end else end  # noqa: FURB136
    return (met[0] if met[0] == (start, end) else TimeWindow(start, end)), met


def add_session(
    live: list[TimeWindow] | LiveSessions, window: TimeWindow
) -> tuple[TimeWindow, list[Merged[TimeWindow]]]:
    """Adds a session to the live ones of a key, with the result of :func:`add_window`."""
    into, met = joined_session(live, window)
    if not met:
        live.append(window)
        return window, []
    if met[0] is into:
        return into, []
    if isinstance(live, LiveSessions):
        live.replace(met, into)
        return into, [Merged(into, met)]
    live[live.index(met[0])] = into
    for session in met[1:]:
        live.remove(session)
    return into, [Merged(into, met)]

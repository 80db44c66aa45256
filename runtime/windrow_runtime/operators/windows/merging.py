"""The live windows of one key, where windows merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from windrow.windows import MergingWindowAssigner, Window

W = TypeVar("W", bound=Window)


@dataclass(frozen=True)
class Merged(Generic[W]):
    """Live windows that became another one.

    Attributes:
        into: The window that they became.
        sources: The live windows that were taken, in the order in which they came to be. The new window is never
            among them; ``into`` is, where it was alive.
    """

    into: W
    sources: list[W]


def add_window(
    live: list[W],
    window: W,
    # Any: merging looks at windows only, never at elements.
    assigner: MergingWindowAssigner[Any, W],
) -> tuple[W, list[Merged[W]]]:
    """Add ``window`` to the live windows of a key, merging as the assigner says.

    Args:
        live: The live windows; changed in place.
        window: The new window.
        assigner: Says what merges.

    Returns:
        The window in which ``window`` ended up, and what happened to other live windows.
    """
    is_new = window not in live
    result = window
    merged: list[Merged[W]] = []
    for merge in assigner.merge_windows([*live, window] if is_new else list(live)):
        taken = set(merge.sources)
        if window in taken:
            result = merge.result
        # A live window that equals the result takes part: its contents are the result's contents.
        sources = [known for known in live if known in taken or known == merge.result]
        if sources == [merge.result]:
            continue
        if sources:
            merged.append(Merged(merge.result, sources))
            position = live.index(sources[0])
            remaining = [known for known in live if known not in sources]
            live[:] = [*remaining[:position], merge.result, *remaining[position:]]
        elif window in taken:
            live.append(merge.result)
    if result == window and window not in live:
        live.append(window)
    return result, merged

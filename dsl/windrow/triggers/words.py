"""Says in words what a trigger waits for: the watermark or the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from windrow.time import MAX_TIMESTAMP, MIN_TIMESTAMP

_RECENT: Final = range(10**11, 253_402_300_800_000)
"""The times that are shown as a date, too: from 1973 to the end of the year 9999."""


def moment(time: int) -> str:
    """A time as a number of milliseconds; one that is far from the epoch as a date, too."""
    if time == MAX_TIMESTAMP:
        return "the end of the stream"
    if time not in _RECENT:
        return f"{time:,}"
    date = datetime.fromtimestamp(time // 1000, UTC)
    return f"{time:,} ({date:%Y-%m-%d %H:%M:%S}.{time % 1000:03} UTC)"


def wait_for_watermark(target: int, watermark: int) -> str:
    """Says that the watermark has to reach ``target``, or has reached it."""
    if target <= watermark:
        return _reached("the watermark", target, watermark)
    now = "there is none yet" if watermark == MIN_TIMESTAMP else f"it is {moment(watermark)}"
    return f"waits for the watermark to reach {moment(target)}; {now}"


def wait_for_clock(target: int, clock: int) -> str:
    """Says that the clock has to reach ``target``, or has reached it."""
    if target <= clock:
        return _reached("the clock", target, clock)
    now = "it was not set yet" if clock == MIN_TIMESTAMP else f"it is {moment(clock)}"
    return f"waits for the clock to reach {moment(target)}; {now}"


def indented(name: str, text: str) -> str:
    """Lines about a part of a trigger, moved in below those about the trigger."""
    first, *others = text.splitlines() or [""]
    return "\n".join([f"\n  {name}{first}", *(f"  {line}" for line in others)])


def _reached(what: str, target: int, now: int) -> str:
    return f"{what} has reached {moment(target)}" + ("" if now == target else f"; it is {moment(now)}")

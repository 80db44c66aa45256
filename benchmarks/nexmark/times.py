"""Days and minutes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["ALL_TIME", "day", "minute"]

ALL_TIME: Final = timedelta(days=100_000)
"""A span that no two events are apart, for joins without a window: both sides stay until the end of the input."""


def day(millis: int) -> str:
    """The day, as ``2026-03-01``."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%Y-%m-%d")


def minute(millis: int) -> str:
    """The minute, as ``06:59``."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%H:%M")

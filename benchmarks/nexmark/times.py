"""Days and minutes in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["day", "minute"]


def day(millis: int) -> str:
    """The day, as ``2026-03-01``."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%Y-%m-%d")


def minute(millis: int) -> str:
    """The minute, as ``06:59``."""
    return datetime.fromtimestamp(millis // 1000, UTC).strftime("%H:%M")

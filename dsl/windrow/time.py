"""Time as windrow counts it: integer milliseconds since the epoch, in the signed 64-bit range.

Users give durations as :class:`datetime.timedelta` and timestamps as integers or :class:`datetime.datetime`; inside,
everything is a number of milliseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from numbers import Integral
from time import time_ns
from typing import Final, Protocol

from windrow.errors import InvalidArgumentError

__all__ = [
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "duration_millis",
    "duration_text",
    "lag_text",
    "non_negative_millis",
    "now_millis",
    "timestamp_millis",
]

MIN_TIMESTAMP: Final = -(2**63)
"""The lowest timestamp. As a watermark it says that nothing is known yet, as a timestamp that there is none."""

MAX_TIMESTAMP: Final = 2**63 - 1
"""The highest timestamp. As a watermark it says that the stream is at its end."""

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_HINTS: Final = {
    float: "int(seconds * 1000) for seconds as a float",
    str: "datetime.fromisoformat(text), where the text has a time zone",
}


class TimeDomain(Enum):
    """The kind of time that a timer waits for, or by which state expires."""

    EVENT_TIME = "event_time"
    """The watermark."""

    PROCESSING_TIME = "processing_time"
    """The clock."""


def duration_millis(duration: timedelta, name: str) -> int:
    """The whole milliseconds of ``duration``; ``name`` says in errors what the duration is.

    ``timedelta.max``, the longest duration that Python has, stands for the longest there is: for ever.

    Args:
        duration: The duration.
        name: What it is, for errors.

    Raises:
        InvalidArgumentError: If it is not a timedelta, or has a fraction of a millisecond.
    """
    if not isinstance(duration, timedelta):
        raise InvalidArgumentError(
            f"{name} must be a duration",
            given=duration,
            expected="a datetime.timedelta",
            # Beam counts in seconds, Flink and Kafka Streams in milliseconds.
            hint=f"timedelta(seconds={duration!r}), or timedelta(milliseconds={duration!r})"
            if isinstance(duration, (int, float)) and not isinstance(duration, bool)
            else None,
        )
    if duration == timedelta.max:
        return MAX_TIMESTAMP
    millis, rest = divmod(duration, _MILLISECOND)
    if rest:
        raise InvalidArgumentError(
            f"{name} has a fraction of a millisecond",
            given=duration,
            expected="whole milliseconds, the unit of event time",
        )
    return millis


_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def duration_text(millis: int) -> str:
    """A duration as plans and messages show it, to the millisecond: ``1 h 30 min``, ``1.5 s``, ``250 ms``.

    Args:
        millis: The milliseconds.
    """
    if millis == MAX_TIMESTAMP:
        return "for ever"
    if abs(millis) < 1_000:
        return f"{millis} ms"
    texts: list[str] = []
    rest = abs(millis)
    for unit, size in _UNITS[:-1]:
        count, rest = divmod(rest, size)
        texts += [f"{count} {unit}"] if count else []
    seconds, thousandths = divmod(rest, 1_000)
    texts += [f"{seconds}{f'.{thousandths:03}'.rstrip('0') if thousandths else ''} s"] if rest else []
    return ("-" if millis < 0 else "") + " ".join(texts)


def lag_text(millis: int) -> str:
    """A measured time in its two largest units, rounded down: ``5 d 3 h``, ``2 min 5 s``, ``3.1 s``, ``250 ms``.

    Args:
        millis: The milliseconds.
    """
    sign, rest = ("-" if millis < 0 else ""), abs(millis)
    if rest < 60_000:
        return f"{sign}{f'{rest // 100 / 10:g} s' if rest >= 1_000 else f'{rest} ms'}"
    first = next(place for place, (_, size) in enumerate(_UNITS) if rest >= size)
    (unit, size), (smaller, part) = _UNITS[first : first + 2]
    count = rest % size // part
    return f"{sign}{rest // size} {unit}" + (f" {count} {smaller}" if count else "")


def now_millis() -> int:
    """The time of this machine's clock, in milliseconds since the epoch."""
    return time_ns() // 1_000_000


def positive_millis(duration: timedelta, name: str) -> int:
    """As :func:`duration_millis`, and greater than zero."""
    millis = duration_millis(duration, name)
    if millis <= 0:
        raise InvalidArgumentError(
            f"{name} must be positive", given=duration_text(millis), expected="a timedelta of at least one millisecond"
        )
    return millis


def non_negative_millis(duration: timedelta, name: str) -> int:
    """As :func:`duration_millis`, and zero or more.

    Args:
        duration: The duration.
        name: What it is, for errors.
    """
    millis = duration_millis(duration, name)
    if millis < 0:
        raise InvalidArgumentError(
            f"{name} must not be negative", given=duration_text(millis), expected="a timedelta >= 0"
        )
    return millis


def timestamp_millis(timestamp: int | datetime, name: str = "a timestamp") -> int:
    """A timestamp, or another moment, as epoch milliseconds.

    Integers are taken as milliseconds, those of numpy too; an aware datetime is converted (rounded down to the
    millisecond).

    Args:
        timestamp: Epoch milliseconds, or an aware datetime.
        name: What it is, for errors.

    Raises:
        InvalidArgumentError: For a naive datetime, for a value of another type, or one outside the 64-bit range.
    """
    if type(timestamp) is int and MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        return timestamp
    if isinstance(timestamp, Integral) and not isinstance(timestamp, bool):
        millis = int(timestamp)
        if MIN_TIMESTAMP <= millis <= MAX_TIMESTAMP:
            return millis
        raise InvalidArgumentError(
            f"{name} is out of range", given=timestamp, expected="milliseconds in the signed 64-bit range"
        )
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None or timestamp.utcoffset() is None:
            raise InvalidArgumentError(
                f"{name} has no time zone",
                given=timestamp,
                expected="an aware datetime, or epoch milliseconds",
                hint="datetime.replace(tzinfo=timezone.utc) if the value is in UTC",
            )
        return (timestamp - _EPOCH) // _MILLISECOND
    raise InvalidArgumentError(
        f"{name} has the wrong type",
        given=timestamp,
        expected="epoch milliseconds as int, or an aware datetime",
        hint=_HINTS.get(type(timestamp)),
    )


class Clocks(Protocol):
    """The watermark and the clock of a call."""

    @property
    def current_watermark(self) -> int:
        """The watermark in milliseconds; :data:`windrow.time.MIN_TIMESTAMP` while there is none."""
        ...

    @property
    def current_processing_time(self) -> int:
        """The clock in milliseconds."""
        ...


class Timers(Clocks, Protocol):
    """Time, and timers of the key, or of the key and window, of the call; they are unique by their time."""

    def register_event_time_timer(self, time: int | datetime) -> None:
        """Have ``on_timer`` or ``on_event_time`` called when the watermark reaches ``time``.

        If it has already, the call comes when it advances next.

        Args:
            time: The time in milliseconds, or as an aware datetime.
        """
        ...

    def register_processing_time_timer(self, time: int | datetime) -> None:
        """Have ``on_timer`` or ``on_processing_time`` called when processing time reaches ``time``.

        If it has already, the call comes at the end of the batch.

        Args:
            time: The time in milliseconds, or as an aware datetime.
        """
        ...

    def delete_event_time_timer(self, time: int | datetime) -> None:
        """Deletes a timer; does nothing where none is set.

        Args:
            time: The time for which it was set.
        """
        ...

    def delete_processing_time_timer(self, time: int | datetime) -> None:
        """Deletes a timer; does nothing where none is set.

        Args:
            time: The time for which it was set.
        """
        ...

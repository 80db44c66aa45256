"""Sets side outputs for the late elements of two streams, and the allowed lateness of joins by time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Generic, Self, TypeVar

from windrow.builder.arguments import check_kind
from windrow.builder.stage import Stage
from windrow.plan.keyed_nodes import NO_LATE_TAGS, LateTags
from windrow.plan.location import AtCaller, refusal
from windrow.tags import OutputTag
from windrow.time import duration_text, non_negative_millis

L = TypeVar("L")
U = TypeVar("U")

_ALLOWED: Final = "the allowed lateness"


@dataclass(frozen=True, slots=True)
class Lateness:
    """What becomes of late elements of a join by time.

    Attributes:
        allowed: How much later elements may come, in milliseconds; None: nobody said.
        tags: Those of the side outputs for later ones.
    """

    allowed: int | None = None
    tags: LateTags = NO_LATE_TAGS


NOTHING_SAID: Final = Lateness()
"""Late elements of both streams are counted and dropped."""


class LateStage(Stage, Generic[L, U]):
    """A join by time, which says what becomes of late elements."""

    __slots__ = ("_lateness",)

    def __init__(self, lateness: Lateness) -> None:
        self._lateness = lateness

    @abstractmethod
    def _with(self, lateness: Lateness) -> Self: ...

    def allowed_lateness(self, lateness: timedelta) -> Self:
        """Join elements that are late by no more than this, too, and keep what they may be joined with for so long.

        Without it an element is late as soon as its timestamp is below the watermark. Their results carry timestamps
        below the watermark: windows that take these need an allowed lateness of their own.

        Args:
            lateness: How long, in event time; zero by default. ``timedelta.max`` means for ever.

        Raises:
            InvalidArgumentError: If it is negative, or was set already.
        """
        return self._with(replace(self._lateness, allowed=millis_once(lateness, self._lateness.allowed, _ALLOWED)))

    def side_output_left_late_data(self, tag: OutputTag[L]) -> Self:
        """Send left elements that are late to a side output, instead of counting and dropping them.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If it is no :class:`OutputTag`, or there is a tag already.
        """
        return self._with(replace(self._lateness, tags=with_tag(self._lateness.tags, tag, left=True)))

    def side_output_right_late_data(self, tag: OutputTag[U]) -> Self:
        """Send right elements that are late to a side output, instead of counting and dropping them.

        Args:
            tag: Names the output, which ``get_side_output`` of the stream of results takes.

        Raises:
            InvalidArgumentError: If it is no :class:`OutputTag`, or there is a tag already.
        """
        return self._with(replace(self._lateness, tags=with_tag(self._lateness.tags, tag, left=False)))


def millis_once(duration: timedelta, stated: int | None, what: str) -> int:
    """The milliseconds of a setting that may be stated once.

    Args:
        duration: Zero or longer.
        stated: What an earlier call has stated, in milliseconds; None: there was none.
        what: What it is, as in "the allowed lateness".

    Raises:
        InvalidArgumentError: If it is negative or no duration, or was stated before.
    """
    with AtCaller():
        millis = non_negative_millis(duration, what)
    if stated is not None:
        raise refusal(
            f"{what} is set twice",
            given=f"{duration_text(stated)}, then {duration_text(millis)}",
            expected=f"one call that states {what}",
        )
    return millis


# Any: elements of every type.
def with_tag(tags: LateTags, tag: OutputTag[Any], *, left: bool) -> LateTags:
    """The tags with one more.

    Raises:
        InvalidArgumentError: If it is no tag, or there is one for that stream already.
    """
    check_kind(tag, OutputTag, "late elements go to the side output of a tag", "an OutputTag")
    earlier_tag = tags.left if left else tags.right
    if earlier_tag is not None:
        raise refusal(
            f"the side output for late data of the {'left' if left else 'right'} stream is set twice",
            given=f"{earlier_tag.name}, then another",
            expected="one side output for each stream",
        )
    return tags._replace(left=tag) if left else tags._replace(right=tag)

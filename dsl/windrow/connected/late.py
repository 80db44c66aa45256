"""The side outputs of the late elements of two streams."""

from __future__ import annotations

from typing import Any

from windrow.errors import InvalidArgumentError
from windrow.plan.location import caller_location
from windrow.plan.nodes import LateTags
from windrow.stages.window_stage import check_kind
from windrow.tags import OutputTag

__all__ = ["with_tag"]


# Any: elements of every type.
def with_tag(tags: LateTags, tag: OutputTag[Any], *, left: bool) -> LateTags:
    """The tags with one more.

    Raises:
        InvalidArgumentError: If it is no tag, or there is one for that stream already.
    """
    check_kind(tag, OutputTag, "late elements go to the side output of a tag", "an OutputTag")
    taken = tags.left if left else tags.right
    if taken is not None:
        raise InvalidArgumentError(
            f"the side output for late data of the {'left' if left else 'right'} stream is set twice",
            given=f"{taken.name}, then another",
            expected="one side output for each stream",
            where=caller_location(),
        )
    return tags._replace(left=tag) if left else tags._replace(right=tag)

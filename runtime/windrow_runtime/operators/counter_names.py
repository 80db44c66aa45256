"""Names the counters of windrow, and refuses names that no counter has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windrow.errors import InvalidArgumentError, similar_name
from windrow.plan import Step
from windrow.plan.own_parts import counter_names

OWN_COUNTERS: Final = ("closed_window_records_dropped", "late_records_dropped", "records_malformed")
"""What windrow counts by itself, of each step that drops records."""


def check_counter(name: str, counted: Iterable[str], steps: Iterable[Step]) -> None:
    """Refuse the name of a counter that nothing counts: a misspelt name would pass for a counter that is 0.

    Args:
        name: The name.
        counted: The names of the counters that are above 0.
        steps: The steps, whose functions may have counters that are 0.

    Raises:
        InvalidArgumentError: If windrow has no such counter, and no function of the steps names one.
    """
    known = {*OWN_COUNTERS, *counted}
    if name in known:
        return
    in_code = counter_names(steps)
    if name not in in_code:
        raise InvalidArgumentError(
            "no step has a counter of that name",
            given=name,
            expected=", ".join(sorted(known)),
            hint=similar_name(name, [*sorted(known), *sorted(in_code)])
            or "names that a function makes at run time exist once they count: result.counters has these",
        )

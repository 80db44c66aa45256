"""The form in which an engine runs a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which an engine runs a step; ``str`` of it is the text in ``explain()``.

    Attributes:
        name: How the step runs, such as ``"columns, partially aggregated before the exchange"``.
        reasons: Why it runs in no faster form.
    """

    name: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((self.name, *self.reasons))

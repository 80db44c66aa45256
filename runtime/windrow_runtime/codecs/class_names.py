"""The user's classes under the names that they have where the plan was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Any: classes of the user's.


@dataclass(frozen=True)
class UserClass:
    """A class of the user's, as it is shipped.

    Attributes:
        kind: The class.
        hints: Its annotations, resolved. In a worker the names in them may mean nothing: a class that travels by value
            leaves its module behind.
        qualified: Its qualified name where the plan was made.
    """

    kind: type[Any]
    hints: dict[str, Any]
    qualified: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "qualified", self.qualified or self.kind.__qualname__)

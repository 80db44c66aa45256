"""The interface by which a source scan hands columns to a keyed step, which may run on columns or on objects."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from windrow.plan import Step
from windrow_runtime.columnar.forms.route import Route
from windrow_runtime.columnar.rows.grouping import Ints, Keys
from windrow_runtime.operators.windows.partials import Partials

__all__ = ["ScanTarget"]

# Any in this module: pyarrow has no types.


class ScanTarget(Protocol):
    """How the elements of a keyed step leave the scan as columns.

    A task calls these in the order in which they stand here: the first three for each batch that it reads, the others
    for some batches in one, before they go through the exchange.
    """

    @property
    def step(self) -> Step:
        """The step."""
        ...

    @property
    def routes(self) -> tuple[Route, ...]:
        """How elements get there from each source."""
        ...

    def check(self, stamps: npt.NDArray[np.int64]) -> None:
        """Looks at timestamps, in milliseconds.

        Raises:
            UnsupportedOperationError: If some are too far away for the step.
        """
        ...

    def columns_of(self, named: dict[str, Any]) -> list[Any]:
        """What is taken of elements, beside key and timestamp.

        Args:
            named: The columns of the elements, by field.
        """
        ...

    @property
    def raw_schema(self) -> Any:
        """The schema of rows: key, timestamp, and what was taken."""
        ...

    def packed(self, rows: Any) -> Any:
        """Rows as they cross the exchange, with the key in the first column."""
        ...

    def hash_keys(self, keys: Any) -> npt.NDArray[np.uint64]:
        """Says in which key group keys lie."""
        ...

    def partials(self, keys: Keys, rows: Any) -> tuple[Ints, Partials] | None:
        """What packed rows come to, and the key of each part; None: the rows cross the exchange themselves."""
        ...

"""Names the types of arrays for annotations: pyarrow has no types of its own."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any  # pyarrow ships no types, here and below
"""A ``pyarrow.Array``."""

ArrowType: TypeAlias = Any
"""A ``pyarrow.DataType``."""

Rows: TypeAlias = Any
"""A ``pyarrow.RecordBatch``."""

Schema: TypeAlias = Any
"""A ``pyarrow.Schema``."""

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]

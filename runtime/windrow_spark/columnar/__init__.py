"""Runs steps on Arrow columns: windows, joins and expressions, vectorised instead of row by row.

Its modules import numpy and pyarrow, which come with the extra ``spark``. pyarrow ships no types: for a type checker
``pa.Array`` and its like are ``Any``.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]

"""Shows how far a bounded run is, in the last row of a terminal or in a notebook, while it runs."""

from windrow_runtime.bar.display import progress_shown
from windrow_runtime.bar.measure import Measure

__all__ = ["Measure", "progress_shown"]

"""Kernels: declared aggregates that work on whole columns.

:func:`kernel_for` gives the kernel of an aggregate, or declines it. A batch of rows becomes one state per
group (``partial``), states of one group become one (``merge``), and a state becomes a result (``results``).
"""

from windrow_runtime.columnar.kernels.choice import InputTypes, kernel_for
from windrow_runtime.columnar.kernels.kernel import Decode, Kernel

__all__ = ["Decode", "InputTypes", "Kernel", "kernel_for"]

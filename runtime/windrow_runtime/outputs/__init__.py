"""Outputs that the engines share: sinks that write a batch in one transaction, with its number.

An output is made for a sink by :func:`open_outputs`, before the first batch, and is given each batch on the driver.
"""

from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.registry import has_output, open_outputs

__all__ = ["Output", "has_output", "open_outputs"]

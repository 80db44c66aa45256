"""Outputs write the sinks of both engines that are written on the driver, each batch with its number.

An output is made for a sink by :func:`open_outputs` before the first batch, and closed by :func:`closing_outputs`.
"""

from windrow_runtime.outputs.output import Output
from windrow_runtime.outputs.registry import closing_outputs, has_output, open_outputs

__all__ = ["Output", "closing_outputs", "has_output", "open_outputs"]

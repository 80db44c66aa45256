"""Hypothesis strategies for streams whose elements arrive out of order; the extra ``testing`` brings Hypothesis."""

from windrow_tools.testing.strategies import Arrival, disordered_streams

__all__ = ["Arrival", "disordered_streams"]

"""Patterns: which elements of a key, one after the other in event time, make a match."""

from windrow.patterns.pattern import Pattern
from windrow.patterns.skip import AfterMatchSkipStrategy, SkipTo

__all__ = ["AfterMatchSkipStrategy", "Pattern", "SkipTo"]

"""Why a figure does not count."""

from __future__ import annotations

__all__ = ["MeasurementError", "WrongResultError"]


class WrongResultError(Exception):
    """A contender computed something else than the input says."""


class MeasurementError(Exception):
    """The batches were not those that the dataset has, so no figure can be taken."""

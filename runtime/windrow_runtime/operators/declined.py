"""The one way in which a faster form of a step is declined."""

from __future__ import annotations


class DeclinedError(Exception):
    """A step, a function or an expression has no faster form; the text says why, in a few words for ``explain()``.

    It is raised where the reason is found, and caught where forms are chosen.
    """

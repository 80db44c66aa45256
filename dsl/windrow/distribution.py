"""Names the distribution that brings windrow, for hints that tell users what to install."""

from __future__ import annotations

from typing import Final

__all__ = ["DISTRIBUTION", "install_hint"]

DISTRIBUTION: Final = "windrow-streams"
"""The name on the package index. ``windrow`` is another project's there; imports are ``windrow`` all the same."""


def install_hint(extra: str) -> str:
    """The command that installs windrow with an extra, as a hint of an error shows it."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"

"""What tests are told when a service cannot be had."""

from __future__ import annotations

__all__ = ["NoServiceError"]


class NoServiceError(Exception):
    """There is no such service here. The text says which, and why, as the reason of a skip."""

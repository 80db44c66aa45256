"""Cases of a test that run in ``make thorough`` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

__all__ = ["thorough"]


# Any: the values of a case have every type.
def thorough(*values: Any, reason: str, id: str | None = None) -> ParameterSet:  # noqa: A002  as pytest.param has it
    """Marks a case of ``parametrize`` for ``make thorough``; the reason names what covers it in ``make test``."""
    return pytest.param(*values, marks=pytest.mark.thorough(reason=reason), id=id)

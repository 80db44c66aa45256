"""How much of the benchmarks to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.contenders.base import SinkKind

__all__ = ["Scale"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to run.

    Attributes:
        quick: Little input, to see that everything works; the figures are rough.
        full: The largest inputs of the interpreter as well, and the contenders that take many minutes for an input.
        rounds: How often each contender runs over an input.
        sink: Where results of Spark queries go.
        contenders: The contenders to run, by the beginning of their names; empty for all.
        pyflink: The Python of an environment that has apache-flink; None: no PyFlink.
    """

    quick: bool
    full: bool
    rounds: int
    sink: SinkKind
    contenders: tuple[str, ...] = ()
    pyflink: str | None = None

    def wants(self, contender: str) -> bool:
        """Whether a contender was asked for."""
        return not self.contenders or any(contender.startswith(name) for name in self.contenders)

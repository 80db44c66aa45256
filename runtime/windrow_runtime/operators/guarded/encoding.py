"""Finds the elements that a sink cannot write, before it gets the others of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress
from math import isqrt
from typing import Any, TypeAlias

from windrow.errors import InvalidArgumentError, UserFunctionError, WindrowError
from windrow.functions import RuntimeContext
from windrow.plan import Step
from windrow_runtime.operators.errors import encodable, errors_at, first_line
from windrow_runtime.operators.fused_step import FusedStep, Timestamps, Values
from windrow_runtime.operators.guarded.guard import is_failure
from windrow_runtime.operators.guarded.trail import kept

# Any in this module: elements of every type.

Encode: TypeAlias = Callable[[Sequence[Any]], object]
"""Encodes elements as a sink does, and raises an error for one that the sink cannot write."""

EncoderOf: TypeAlias = Callable[[Step], Encode]
"""Returns what encodes elements as the sink of a step does."""


class EncodableOnly(FusedStep):
    """Passes on the elements that a sink can encode; the policy of the sink decides about the others.

    All elements of a push are encoded at once. Only where that fails they are divided, into as many parts as a part
    has elements, until each part has no element that fails, or is one. Halves take longer, as an encoder that fails
    looks for the element itself.
    """

    def __init__(self, step: Step, then: Sequence[FusedStep], encoder_of: EncoderOf) -> None:
        super().__init__(step, then, constant=True)
        self._encoder_of = encoder_of

    def open(self, runtime: RuntimeContext) -> None:
        with errors_at(self.step.where):
            self._encode = self._encoder_of(self.step)

    def push(self, values: Values, timestamps: Timestamps) -> None:
        guard = self.guard
        assert guard is not None, "the sink has a policy"
        with errors_at(self.step.where):
            failed = dict(self._failures(values, 0))
        if not failed:
            self._forward(values, timestamps)
            return
        for index, error in failed.items():
            origin = partial(self.trail.origin_of, index)
            guard.refuse(_text_of(error, self.step), values[index], timestamps[index], origin)
        is_kept = [index not in failed for index in range(len(values))]
        self._forward(list(compress(values, is_kept)), list(compress(timestamps, is_kept)), kept(is_kept))
        self._pass_failed()

    def _failures(self, values: Values, start: int) -> Iterator[tuple[int, Exception]]:
        """Yields the place of each element that cannot be encoded, and the error; the first place is ``start``."""
        try:
            self._encode(values)
        except Exception as error:
            if not _is_of_element(error):
                raise
            if len(values) == 1:
                yield start, error
                return
            size = isqrt(len(values))
            for part in range(0, len(values), size):
                yield from self._failures(values[part : part + size], start + part)


def _is_of_element(error: BaseException) -> bool:
    """Returns whether an error is about an element, and not about the program, the machine or a service."""
    cause = error.__cause__
    if isinstance(cause, MemoryError) or (isinstance(error, UserFunctionError) and isinstance(cause, WindrowError)):
        return False
    return isinstance(error, (InvalidArgumentError, UserFunctionError)) or is_failure(error)


def _text_of(error: Exception, step: Step) -> str:
    """Returns the class of an error and its message, with the field that it is about."""
    if not isinstance(error, WindrowError):
        return first_line(error)
    field = f"{error.where or ''}".removeprefix(step.where).removeprefix(", ")
    return encodable(f"{type(error).__name__}: {error.message}{f' ({field})' if field else ''}")

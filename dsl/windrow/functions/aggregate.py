"""Functions that fold the elements of a window one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from windrow.errors import UnsupportedOperationError
from windrow.functions.rich import DescribedFunction, RichFunction

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)
# Any: an annotation that leaves it out takes all aggregates, whether they give None for an empty window or not.
E_co = TypeVar("E_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=object)


class AggregateFunction(DescribedFunction, ABC, Generic[T_contra, A, R_co, E_co, K_contra]):
    """Folds elements into an accumulator, from which the result is taken when the window fires.

    The type parameters are the element, the accumulator and the result. Two more have defaults, and a function of yours
    leaves them out: what else the result may be for a window that an evictor has emptied, such as None; and the type
    that keys must have. An accumulator may be changed in place, as long as it is returned; it is stored between calls,
    so it is of a builtin type, a record, or of a class that annotations name.

    Attributes:
        commutative: Set it to True if results do not depend on the order in which elements are added and accumulators
            are merged, floats but for their last bits, and if ``merge`` is associative, as for counts, sums and sets.
            Then sliding windows share what they have in common: an engine may fold each element once, and merge the
            accumulator of a stretch of time into all windows that hold it. Elements of one session may be folded
            before they are merged into it. Without a ``merge`` it changes nothing.
    """

    commutative: ClassVar[bool] = False

    @abstractmethod
    def create_accumulator(self) -> A:
        """A new, empty accumulator. Called for the first element of a window."""

    @abstractmethod
    def add(self, value: T_contra, accumulator: A) -> A:
        """Fold ``value`` in. Called for every element, in order of arrival.

        Args:
            value: The element.
            accumulator: The accumulator, which may be changed.

        Returns:
            The accumulator to store, which is the one given, changed, or another one.
        """

    @abstractmethod
    def get_result(self, accumulator: A) -> R_co | E_co:
        """The result. Called at each firing; must leave the accumulator as it is.

        Args:
            accumulator: The accumulator.

        Returns:
            The result as it is at that moment. It may be the accumulator itself, or share parts with it.
        """

    def merge(self, a: A, b: A) -> A:
        """One accumulator for the elements of both; those of ``a`` count as the earlier ones.

        Called when windows merge, where ``a`` is that of the window whose first element came earlier. An engine may
        also fold the elements of a window in several places, in their order, and put the accumulators together; the
        result must be the same, floats but for their last bits. Both may be changed: what several windows share, each
        has for itself.

        Args:
            a: The accumulator of the earlier elements.
            b: The accumulator of the later ones.

        Returns:
            The accumulator to store.

        Raises:
            UnsupportedOperationError: Unless it is overridden. Merging windows need it.
        """
        raise UnsupportedOperationError(
            "an aggregate function without merge cannot be used on merging windows",
            given=type(self).__name__,
            hint="override merge(self, a, b)",
        )

    def retract(self, value: T_contra, accumulator: A) -> A:
        """Take ``value`` out again, which :meth:`add` has folded in. Called for elements that were withdrawn upstream.

        Without it a window downstream of one that retracts keeps all its elements, and folds them anew when it fires.

        Args:
            value: The element that was withdrawn.
            accumulator: The accumulator, which may be changed.

        Returns:
            The accumulator to store, as :meth:`add`.

        Raises:
            UnsupportedOperationError: Unless it is overridden.
        """
        raise UnsupportedOperationError(
            "an aggregate function without retract takes nothing out again",
            given=type(self).__name__,
            hint="override retract(self, value, accumulator)",
        )

    def can_retract(self, element_type: object | None) -> bool:
        """Whether ``retract`` gives what folding the other elements gives; asked when the plan is lowered.

        Args:
            element_type: The type of the elements, where it is known.
        """
        return type(self).retract is not AggregateFunction.retract

    @property
    def can_merge(self) -> bool:
        """Whether there is a ``merge``; asked when the plan is built."""
        return type(self).merge is not AggregateFunction.merge

    @property
    def can_share(self) -> bool:
        """Whether windows that overlap may share accumulators; asked when the plan is built."""
        return self.commutative and self.can_merge


class ReduceFunction(RichFunction, ABC, Generic[T]):
    """Combines two elements into one of the same type. A plain function of two arguments serves as well."""

    @abstractmethod
    def reduce(self, a: T, b: T) -> T:
        """Combine ``a``, what was combined so far, with ``b``, the new element. Both may be changed, and returned.

        Args:
            a: What was combined so far.
            b: The new element.

        Returns:
            The two as one element.
        """

    def __call__(self, a: T, b: T) -> T:
        """Calls :meth:`reduce`."""
        return self.reduce(a, b)

"""Functions of one element, as classes. A plain function serves as well; a class can open and close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from windrow.functions.rich import RichFunction

T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class MapFunction(RichFunction, ABC, Generic[T_contra, R_co]):
    """Makes one record from each element."""

    @abstractmethod
    def map(self, value: T_contra) -> R_co:
        """Called for each element.

        Args:
            value: The element.

        Returns:
            The element to emit in its place.
        """

    def __call__(self, value: T_contra) -> R_co:
        """Calls :meth:`map`."""
        return self.map(value)


class FlatMapFunction(RichFunction, ABC, Generic[T_contra, R_co]):
    """Makes any number of records from each element."""

    @abstractmethod
    def flat_map(self, value: T_contra) -> Iterable[R_co] | None:
        """Called for each element; its results are emitted in order, and None emits nothing.

        Args:
            value: The element.

        Returns:
            The records to emit; a generator will do, and None emits nothing.
        """

    def __call__(self, value: T_contra) -> Iterable[R_co] | None:
        """Calls :meth:`flat_map`."""
        return self.flat_map(value)


class FilterFunction(RichFunction, ABC, Generic[T_contra]):
    """Decides which elements stay."""

    @abstractmethod
    def filter(self, value: T_contra) -> bool:
        """Called for each element; true keeps it.

        Args:
            value: The element.

        Returns:
            Whether it stays.
        """

    def __call__(self, value: T_contra) -> bool:
        """Calls :meth:`filter`."""
        return self.filter(value)


class KeySelector(RichFunction, ABC, Generic[T_contra, R_co]):
    """Takes the key from an element."""

    @abstractmethod
    def get_key(self, value: T_contra) -> R_co:
        """Called for each element. Equal elements must give equal keys.

        Args:
            value: The element.

        Returns:
            Its key, hashable and compared by value.
        """

    def __call__(self, value: T_contra) -> R_co:
        """Calls :meth:`get_key`."""
        return self.get_key(value)

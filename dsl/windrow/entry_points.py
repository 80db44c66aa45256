"""Loads what installed packages, windrow among them, register in their entry points."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from windrow.errors import InvalidArgumentError, WindrowError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def names(group: str) -> list[str]:
    """The names in a group, such as ``windrow.runners``."""
    return sorted(_registered(group))


def has(group: str, name: str) -> bool:
    """Whether a package had registered something in a group under a name when packages were looked through last."""
    return name in _registered(group)


# Any: each group says what its entries are.
def load(group: str, name: str) -> Any:
    """What a package has registered in a group under a name.

    Raises:
        InvalidArgumentError: If no installed package has registered the name, several have, or it cannot be loaded.
    """
    what = group.removeprefix("windrow.").removesuffix("s").replace("_", " ")
    entries = _entries(group, name)
    if not entries:
        raise InvalidArgumentError(
            f"no installed package brings a {what} of this name",
            given=name,
            expected=", ".join(names(group)) or None,
            hint=f"install the package with its metadata, a folder *.dist-info, which names it in {group}",
        )
    if len(entries) > 1:
        raise InvalidArgumentError(
            f"several packages bring a {what} of this name",
            given=f"{name}: {', '.join(sorted(map(_origin, entries)))}",
            hint="import the class from its module, or uninstall one of the packages",
        )
    try:
        return _loaded(entries[0])
    except WindrowError:
        raise
    except Exception as error:  # a module of another package may raise anything
        raise InvalidArgumentError(
            f"the {what} of a package cannot be loaded",
            given=f"{name}: {_origin(entries[0])}: {type(error).__name__}: {error}",
            hint="the original error is the cause",
        ) from error


def _entries(group: str, name: str) -> list[EntryPoint]:
    """The entries of a name; packages are looked through again where there is none, since one may be new."""
    entries = _registered(group).get(name)
    if entries is None:
        _registered.cache_clear()
        entries = _registered(group).get(name, [])
    return entries


@cache
def _loaded(entry: EntryPoint) -> Any:
    return entry.load()


@cache
def _registered(group: str) -> dict[str, list[EntryPoint]]:
    """The entries of a group by name. A package may be on the path twice, as when it is installed to be edited."""
    from importlib.metadata import entry_points  # by the first run, not while windrow is imported

    unlike = {(entry.name, entry.value): entry for entry in entry_points(group=group)}
    by_name: dict[str, list[EntryPoint]] = {}
    for entry in unlike.values():
        by_name.setdefault(entry.name, []).append(entry)
    return by_name


def _origin(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else f"{entry.value} of {entry.dist.name}"

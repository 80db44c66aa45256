"""Checks the folders of a plan: two sinks need two folders, and no source may read the folder of a sink.

The fields by whose values a file sink names folders are checked as well.
"""

from __future__ import annotations

import datetime
import enum
import os
import typing
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import ClassVar, Final

import typing_extensions

from windrow.addresses.paths import is_inside, reads_from, real_path
from windrow.errors import Fault
from windrow.functions.type_names import type_name
from windrow.plan.fitting import options_of
from windrow.plan.hints import resolved_hints
from windrow.plan.records import is_record_class
from windrow.plan.steps import Step, StepFault

_PLAIN: Final = (str, int, bool, datetime.date)
_EXPECTED: Final = "str, int, bool, date or Enum, or one of them and None"


def folder_faults(steps: Sequence[Step]) -> Iterator[Fault]:
    """The faults, each with both steps."""
    written = [(step, real_path(path)) for step in steps if (path := _written(step)) is not None]
    for (step, folder), (other, another) in combinations(written, 2):
        if _shares(step) and _shares(other):
            continue
        if _same(folder, another):
            how = "one folder"
        elif is_inside(folder, another) or is_inside(another, folder):
            how = "folders of which one holds the other"
        else:
            continue
        yield Fault(
            f"the sinks {step.node.describe()!r} and {other.node.describe()!r} write into {how} ({step.where})",
            other.where,
            "give each sink a folder of its own, or unite the streams before one sink",
        )
    for source in steps:
        paths = () if source.node.reads is None else source.node.reads.read_folders
        for path, (step, folder) in product(paths, written):
            if reads_from(path, folder, _partition(step)):
                yield Fault(
                    f"the source {source.node.describe()!r} reads what the sink {step.node.describe()!r} writes"
                    f" ({source.where})",
                    step.where,
                    "write into a folder that no source of the pipeline reads",
                )


def _written(step: Step) -> str | None:
    return None if step.node.writes is None else step.node.writes.written_folder


def _partition(step: Step) -> str | None:
    """The field that names the outer folders of a file sink, if there is one."""
    fields = () if step.node.writes is None else step.node.writes.fields_of_folders
    return next(iter(fields), None)


def _shares(step: Step) -> bool:
    return step.node.writes is not None and step.node.writes.shares_folder


def _same(folder: str, other: str) -> bool:
    try:
        # Two mounts of one folder have two names.
        return folder == other or os.path.samefile(folder, other)
    except OSError:
        return False


def partition_faults(names: tuple[str, ...], element_type: object) -> Iterator[StepFault]:
    """The faults of the names in ``partition_by``; what annotations do not tell is checked when the run begins."""
    record = typing.get_origin(element_type) or element_type
    argument = f"partition_by=({', '.join(map(repr, names))})"
    if not isinstance(record, type) or not (is_record_class(record) or typing_extensions.is_typeddict(record)):
        yield (
            f"{argument} names fields, and the elements are of {type_name(element_type)}, which is no record",
            "map the elements to a record, such as a dataclass, before sink_to",
        )
        return
    fields = {name: kind for name, kind in resolved_hints(record).items() if typing.get_origin(kind) is not ClassVar}
    unknown = [name for name in names if name not in fields]
    if unknown:
        yield (
            f"{argument} names a field that {record.__name__} does not have: {', '.join(unknown)}",
            f"name fields of {record.__name__}: {', '.join(fields)}",
        )
        return
    for name in names:
        if name.startswith(("_", ".")):
            yield (
                f"{argument} names the field {name}, and readers pass over folders whose names begin with {name[0]!r}",
                "rename the field",
            )
        elif not _is_plain(fields[name]):
            yield (
                f"{argument} names a field that cannot name folders: {name} is of {type_name(fields[name])}",
                f"expected {_EXPECTED}; map the field to the text that the folders are to have",
            )
    if len(names) == len(fields):
        yield (
            f"{argument} names all fields of {record.__name__}, and none is left for the files",
            "leave a field out of partition_by",
        )


def _is_plain(type_form: object) -> bool:
    """Whether a field's values can name folders, or nobody can tell, as of a generic record."""
    options = [option for option in options_of(type_form) if option is not type(None)]
    if len(options) != 1:
        return False
    (option,) = options
    if not isinstance(option, type):
        return typing.get_origin(option) is None
    return option in _PLAIN or issubclass(option, enum.Enum)

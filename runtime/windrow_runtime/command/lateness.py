"""Measures how far the timestamps of files are out of order, and which bounds of out-of-orderness would suit.

An element is behind by its distance from the highest timestamp before it, in the order of the lines and files. A bound
loses it as late if it is behind by more: the watermark, which is the highest timestamp less the bound less 1 ms, has
then reached its timestamp when it arrives. That is what a run loses in windows of 1 ms if each element is a batch of
its own. Longer windows that are still open take such an element, and so do larger batches, whose watermark is that of
the batches before.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from windrow.errors import InvalidArgumentError, similar_name
from windrow.time import duration_text
from windrow_runtime.command.disorder import Disorder
from windrow_runtime.command.failures import ExitCode
from windrow_runtime.command.timestamps import FORMATS, UNITS, TimestampReader, files_of, first_fields, rows_of

_SHOWN_KEYS: Final = 10
_SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_WIDTH: Final = 12
"""The least width of a column of numbers."""

_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h|d)")
_MILLIS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _bounds(text: str) -> list[int]:
    """Parses lengths such as ``500ms,5s,1m`` into milliseconds."""
    lengths = [_LENGTH.fullmatch(part.strip()) for part in text.split(",")]
    if None in lengths:
        raise ArgumentTypeError(f"{text!r} is no list of lengths such as 500ms,5s,1m,2h,1d")
    return sorted({round(float(length[1]) * _MILLIS[length[2]]) for length in lengths if length is not None})


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files of records, or folders of them, in the order of their arrival"
    )
    parser.add_argument("--time", required=True, metavar="FIELD", help="the field with the timestamp")
    parser.add_argument(
        "--unit", choices=UNITS, help="the unit of numbers since 1970; by default the size of the first one tells"
    )
    parser.add_argument(
        "--key", metavar="FIELD", help="tells the elements of which keys are behind, and the disorder within each key"
    )
    parser.add_argument("--format", choices=FORMATS, help="the format of the files; by default their suffix says it")
    parser.add_argument(
        "--bounds",
        type=_bounds,
        default="1s,5s,30s",
        metavar="LENGTHS",
        help="the bounds to try, such as 500ms,5s,1m; units are ms, s, m or min, h, d",
    )


def prepare(options: Namespace) -> Callable[[], int]:
    """Checks that the files can be read; returns what measures and prints."""
    files = [file for path in options.files for file in files_of(path)]
    readers = [rows_of(file, options.format, options.time, options.key) for file in files]
    timestamps = TimestampReader(options.time, options.unit)

    def fields() -> Sequence[str]:
        return next(filter(None, (first_fields(file, options.format) for file in files)), ())

    def measure() -> int:
        stream, within_keys = Disorder(), Disorder()
        highest: dict[object, int] = {}
        behind: dict[object, Disorder] = {}
        for rows in readers:
            for where, value, row_key in rows():
                timestamp = timestamps.millis(value, where)
                if timestamp is None:
                    continue
                distance = stream.add(timestamp)
                if options.key is not None:
                    key = row_key if isinstance(row_key, Hashable) else repr(row_key)  # such as a list
                    behind.setdefault(key, Disorder()).count(distance)
                    highest[key] = max(timestamp, highest.get(key, timestamp))
                    within_keys.count(highest[key] - timestamp)
        if timestamps.skipped:
            print(
                f"windrow: {timestamps.skipped:,} elements without a timestamp are left out; "
                f"the first is at {timestamps.first_skipped}",
                file=sys.stderr,
            )
        if not stream.elements:
            raise _field_missing("a timestamp", "--time", options.time, options.files, fields())
        if behind.keys() == {None} and (names := fields()) and options.key not in names:
            raise _field_missing("the key", "--key", options.key, options.files, names)
        print(*_report(stream, timestamps.shown_unit, options.bounds), sep="\n")
        if options.key is not None:
            print(*_key_report(behind, within_keys, options.key, options.bounds), sep="\n")
        return ExitCode.OK

    return measure


def _field_missing(
    what: str, option: str, name: str, files: Sequence[str], fields: Sequence[str]
) -> InvalidArgumentError:
    nested = "fields of fields are not read: name one of the record itself" if "." in name else None
    return InvalidArgumentError(
        f"no element has {what}",
        given=f"{', '.join(files)}: {option} {name}",
        expected=f"a field of the records; the first line has {', '.join(fields)}" if fields else None,
        hint=nested or similar_name(name, fields),
    )


def _report(stream: Disorder, unit: str, bounds: Sequence[int]) -> Iterator[str]:
    yield f"{stream.elements:,} elements, timestamps {unit}, {stream.shown_range()}"
    yield f"behind the highest timestamp before: {stream.behind:,} ({_percent(stream.behind, stream.elements)})"
    yield f"  {_distribution(stream)}"
    yield ""
    width = max(_WIDTH, *(len(duration_text(bound)) for bound in bounds))
    yield f"{'bound':>{width}}  {'late':>12}  share"
    for bound in bounds:
        late = stream.beyond(bound)
        yield f"{duration_text(bound):>{width}}  {late:>12,}  {_percent(late, stream.elements)}"
    yield ""
    for share, loses in ((0.001, "at most 0.1 %"), (0.0, "nothing")):
        bound = stream.least_bound(share)
        yield f"{_strategy(bound)} loses {loses}: {stream.beyond(bound):,} of {stream.elements:,}"


def _key_report(
    behind: dict[object, Disorder], within_keys: Disorder, field: str, bounds: Sequence[int]
) -> Iterator[str]:
    yield ""
    yield f"within each {field}, as if it were a partition with a watermark of its own: {within_keys.behind:,} behind"
    yield f"  {_distribution(within_keys)}"
    yield ""
    yield f"{field}: elements, and those that a bound loses under the watermark of the whole stream"
    worst = sorted(behind.items(), key=lambda item: (-item[1].beyond(0), -item[1].most, str(item[0])))
    rows = [["elements", *map(duration_text, bounds), "most", "key"]]
    for key, disorder in worst[:_SHOWN_KEYS]:
        losses = [f"{disorder.beyond(bound):,}" for bound in bounds]
        rows.append([f"{disorder.elements:,}", *losses, duration_text(disorder.most), f"{key!r}"])
    widths = [max(_WIDTH, *map(len, column)) for column in zip(*rows, strict=True)]
    for *cells, key in rows:
        yield "  ".join([*(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)), key])
    if len(worst) > _SHOWN_KEYS:
        yield f"and {len(worst) - _SHOWN_KEYS:,} more"


def _distribution(disorder: Disorder) -> str:
    parts = [f"{share * 100:g} %: {duration_text(disorder.least_bound(1 - share))}" for share in _SHARES]
    return ", ".join([*parts, f"most: {duration_text(disorder.most)}"])


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.4g} %" if share < 1 else f"{share:.1f} %"


def _strategy(bound: int) -> str:
    seconds, millis = divmod(bound, 1000)
    arguments = ", ".join(
        f"{name}={number}" for name, number in (("seconds", seconds), ("milliseconds", millis)) if number
    )
    assert timedelta(seconds=seconds, milliseconds=millis) == timedelta(milliseconds=bound)
    if not bound:
        return "WatermarkStrategy.for_monotonous_timestamps()"
    return f"WatermarkStrategy.for_bounded_out_of_orderness(timedelta({arguments}))"

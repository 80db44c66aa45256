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

from windrow.errors import InvalidArgumentError
from windrow_runtime.command.disorder import Disorder
from windrow_runtime.command.failures import ExitCode
from windrow_runtime.command.timestamps import FORMATS, UNITS, TimestampReader, rows_of

_SHOWN_KEYS: Final = 10
_SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h|d)")
_MILLIS: Final = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _bounds(text: str) -> list[int]:
    """Parses lengths such as ``500ms,5s,1min`` into milliseconds."""
    lengths = [_LENGTH.fullmatch(part.strip()) for part in text.split(",")]
    if None in lengths:
        raise ArgumentTypeError(f"{text!r} is no list of lengths such as 500ms,5s,1min,2h,1d")
    return sorted({round(float(length[1]) * _MILLIS[length[2]]) for length in lengths if length is not None})


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of records, in the order of their arrival")
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
        help="the bounds to try, such as 500ms,5s,1min",
    )


def prepare(options: Namespace) -> Callable[[], int]:
    """Checks that the files can be read; returns what measures and prints."""
    readers = [rows_of(file, options.format, options.time, options.key) for file in options.files]
    timestamps = TimestampReader(options.time, options.unit)

    def measure() -> int:
        stream, within_keys = Disorder(), Disorder()
        highest: dict[object, int] = {}
        behind: dict[object, Disorder] = {}
        for rows in readers:
            for where, value, found in rows():
                timestamp = timestamps.millis(value, where)
                if timestamp is None:
                    continue
                distance = stream.add(timestamp)
                if options.key is not None:
                    key = found if isinstance(found, Hashable) else repr(found)  # such as a list
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
            raise InvalidArgumentError(
                "no element has a timestamp", given=f"{', '.join(options.files)}: --time {options.time}"
            )
        print(*_report(stream, timestamps.shown_unit, options.bounds), sep="\n")
        if options.key is not None:
            print(*_key_report(behind, within_keys, options.key, options.bounds), sep="\n")
        return ExitCode.OK

    return measure


def _report(stream: Disorder, unit: str, bounds: Sequence[int]) -> Iterator[str]:
    yield f"{stream.elements:,} elements, timestamps {unit}, {stream.shown_range()}"
    yield f"behind the highest timestamp before: {stream.behind:,} ({_percent(stream.behind, stream.elements)})"
    yield f"  {_distribution(stream)}"
    yield ""
    yield f"{'bound':>12}  {'late':>12}  share"
    for bound in bounds:
        late = stream.beyond(bound)
        yield f"{_length(bound):>12}  {late:>12,}  {_percent(late, stream.elements)}"
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
    yield f"{field}: elements, and those that a bound loses"
    yield "  ".join([f"{'elements':>12}", *(f"{_length(bound):>12}" for bound in bounds), f"{'most':>12}", "key"])
    worst = sorted(behind.items(), key=lambda item: (-item[1].beyond(0), -item[1].most, str(item[0])))
    for key, disorder in worst[:_SHOWN_KEYS]:
        cells = [f"{disorder.elements:>12,}", *(f"{disorder.beyond(bound):>12,}" for bound in bounds)]
        yield "  ".join([*cells, f"{_length(disorder.most):>12}", f"{key!r}"])
    if len(worst) > _SHOWN_KEYS:
        yield f"and {len(worst) - _SHOWN_KEYS:,} more"


def _distribution(disorder: Disorder) -> str:
    parts = [f"{share * 100:g} %: {_length(disorder.least_bound(1 - share))}" for share in _SHARES]
    return ", ".join([*parts, f"most: {_length(disorder.most)}"])


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.4g} %" if share < 1 else f"{share:.1f} %"


def _length(millis: int) -> str:
    """Shows a length of time in the unit that suits it, without rounding."""
    if millis < 1000:
        return f"{millis} ms"
    return f"{millis / 1000:,.3f}".rstrip("0").rstrip(".") + " s"


def _strategy(bound: int) -> str:
    seconds, millis = divmod(bound, 1000)
    arguments = ", ".join(
        f"{name}={number}" for name, number in (("seconds", seconds), ("milliseconds", millis)) if number
    )
    assert timedelta(seconds=seconds, milliseconds=millis) == timedelta(milliseconds=bound)
    if not bound:
        return "WatermarkStrategy.for_monotonous_timestamps()"
    return f"WatermarkStrategy.for_bounded_out_of_orderness(timedelta({arguments}))"

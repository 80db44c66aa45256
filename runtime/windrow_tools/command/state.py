"""Shows what keys hold in the keyed steps of a savepoint: windows, their contents, keyed state and timers.

Java is not needed. Steps that ran on columns need the pipeline, which knows what the columns mean. To look into a
checkpoint, take a savepoint of it first: windrow savepoint CHECKPOINT FILE SAVEPOINT.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from windrow.errors import InvalidArgumentError, similar_name
from windrow_tools.command.failures import ExitCode
from windrow_tools.command.parameters import settings_of
from windrow_tools.command.user_file import named_pipeline

# Any in this module: what tables hold.

_MOST_KEYS: Final = 20


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("savepoint", metavar="SAVEPOINT", help="the folder of the savepoint")
    parser.add_argument(
        "pipeline", metavar="FILE[:PIPELINE]", nargs="?", help="the pipeline that ran, for steps that ran on columns"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the pipeline")
    parser.add_argument("--step", metavar="STEP", help="the name of a step; without it all steps are listed")
    parser.add_argument(
        "--key", metavar="KEY", help=f"a key, as JSON or a text; without it the first {_MOST_KEYS} keys"
    )


def prepare(options: Namespace) -> Callable[[], int]:
    """Opens the savepoint, and imports the pipeline if one is named; returns what shows the state."""
    from windrow_spark import check_installed

    check_installed()
    import pyarrow as pa

    from windrow_spark.savepoint.reading import read

    if options.key is not None and options.step is None:
        raise InvalidArgumentError(
            "a key is one of a step", given=f"--key {options.key}", expected="--step STEP --key KEY"
        )
    if options.set and options.pipeline is None:
        raise InvalidArgumentError(
            "a parameter is one of a pipeline", given=f"--set {options.set[0]}", expected="SAVEPOINT FILE[:PIPELINE]"
        )
    pipeline = None if options.pipeline is None else named_pipeline(options.pipeline, settings_of(options.set, []))
    savepoint = read(options.savepoint, pipeline)
    if options.step is not None and options.step not in savepoint:
        raise InvalidArgumentError(
            "the savepoint has no step of this name",
            given=options.step,
            expected=", ".join(savepoint),
            hint=similar_name(options.step, savepoint),
        )

    def show() -> int:
        if options.step is None:
            print(f"{options.savepoint}: the state after batch {savepoint.batch}")
            print(*(f"  {step}: in {savepoint.form(step)}" for step in savepoint), sep="\n")
            return ExitCode.OK
        rows = savepoint[options.step]
        if options.key is not None:
            wanted = _keys_of(options.key)
            rows = rows.filter(pa.array([_compared(key) in wanted for key in rows["key"].to_pylist()], pa.bool_()))
        for row in rows.slice(0, _MOST_KEYS).to_pylist():
            print(*_lines(row), sep="\n")
        if rows.num_rows > _MOST_KEYS:
            print(f"and {rows.num_rows - _MOST_KEYS:,} keys more")
        if not rows.num_rows:
            print(f"{options.step} holds nothing" + ("" if options.key is None else f" for the key {options.key}"))
        return ExitCode.OK if rows.num_rows else ExitCode.FAILED

    return show


def _keys_of(text: str) -> set[str]:
    """Returns the keys that a text stands for: itself as a text, and what it is as JSON, however it is spelled."""
    keys = {_compared(json.dumps(text))}
    with suppress(ValueError, RecursionError):
        keys.add(_compared(text))
    return keys


def _compared(key: str) -> str:
    """Returns the JSON of a key in one spelling."""
    return json.dumps(json.loads(key), sort_keys=True)


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines that show the state of one key."""
    yield f"key {row['key']}"
    for window in row["windows"]:
        yield f"  {window['window']}: {window['contents'] or 'no contents'}"
        yield from (f"    {part}: {window[part]}" for part in ("trigger", "state") if window[part] is not None)
    if row["state"] is not None:
        yield from (
            f"  state {name}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in json.loads(row["state"]).items()
        )
    for timer in row["timers"]:
        of_window = "" if timer["window"] is None else f", {timer['window']}"
        yield f"  timer at {timer['time']} in {timer['domain']}{of_window}"

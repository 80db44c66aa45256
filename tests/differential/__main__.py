"""Compares engines on random pipelines over random input: what every sink took, and what was counted.

A case is a random branch of one to three keyed steps, see :mod:`tests.differential.branches`, over a random input, see
:mod:`tests.differential.inputs`; number and seed say which. Twenty neighbouring cases share an input, and run as one
query. The interpreter is the reference. Its general operator and its faster forms are compared, and Spark.

Every engine gets the same batches. Within a key the order of elements counts, wherever it is defined.

Processing time is that of a clock which goes on by batches, the same for every engine. Windows are staggered by the
clock where one instance has all elements. Elsewhere engines shift them differently: the interpreter has one instance
for all keys, and Spark has many.

With ``--columns`` elements come from files of Parquet, JSON or CSV, a batch a file, so that on Spark steps get them as
columns. Many cases then begin with a window step that has a declared aggregate, see :mod:`tests.differential.declared`,
and so runs on columns. The cases of a number are others than without.

With ``--two-inputs`` each case begins with a step of two inputs, see :mod:`tests.differential.two_inputs`, which reads
two sources. The cases of a number are others than without. With ``--columns`` besides, many joins are declared, and run
on columns; no step has a declared aggregate then.

With ``--live`` Spark runs as users run it: by the clock of the machine, over files that arrive while it runs, with
``process_available``, a stop and another start in the middle, and a drain. Many cases have steps that use the clock, in
front of others or beside them, see :mod:`tests.differential.live`. What depends on the moment is not compared: panes
are, by the totals that a second step makes of them, and elements that wait for the clock, as none may be lost.

With ``--saved`` Spark stops after some batches, a savepoint is taken, and others go on from it: with other partitions,
on Python objects, and in the interpreter, see :mod:`tests.differential.saved`.

With ``--batch`` all elements are in one batch, without watermarks before the end and without a clock, and Spark runs
them as a batch job.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.differential import stored
from tests.differential.cases import Found, Prepared, grouped
from tests.differential.checking import Engines, check
from windrow_runtime.local import LocalRunner

INTERPRETER: Engines = {
    "the interpreter": lambda pipeline, clock: LocalRunner(clock=clock, fast=False).run(pipeline),
    "the interpreter with its faster forms": lambda pipeline, clock: LocalRunner(clock=clock).run(pipeline),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        0 if all cases are equal, 1 if some differ, 2 if the arguments do not fit.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description="Compare engines on random pipelines."
    )
    parser.add_argument("--cases", type=_count, metavar="N", help="how many cases (default 20, or the file's)")
    parser.add_argument("--seed", type=int, metavar="S", help="chooses the cases (default 1, or the file's)")
    parser.add_argument(
        "--case", type=_number, metavar="NUMBER", action="append", help="run this case only; may be given again"
    )
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the expected outputs of a file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the interpreter's outputs to a file")
    parser.add_argument("--batch", action="store_true", help="all elements in one batch, and Spark as a batch job")
    parser.add_argument(
        "--columns",
        action="store_true",
        help="elements from files, so that Spark has their columns, and declared aggregates or joins",
    )
    parser.add_argument(
        "--two-inputs",
        action="store_true",
        help="cases begin with a join, a co-group, connected streams, rules or views",
    )
    parser.add_argument(
        "--live", action="store_true", help="by the machine's clock, over files that arrive, with a stop in the middle"
    )
    parser.add_argument(
        "--saved",
        action="store_true",
        help="on Spark up to a savepoint, from which other partitions, Python objects and the interpreter go on",
    )
    parser.add_argument(
        "--rescaled",
        action="store_true",
        help="on Spark with two, seven and three partitions, while the driver dies as it moves the state",
    )
    parser.add_argument("--local", action="store_true", help="without Spark: the interpreter's forms only")
    options = parser.parse_args(arguments)
    if options.live and (options.batch or options.columns or options.two_inputs):
        parser.error("live cases are of one input, with columns, and in several batches")
    if (options.saved or options.rescaled) and (options.batch or options.local or (options.saved and options.live)):
        parser.error("a savepoint is taken of runs on Spark in several batches, which stop by themselves")
    if options.against is not None or options.write is not None:
        refused = [
            *["in several batches"] * options.batch,
            *["without columns"] * options.columns,
            *["of one input"] * options.two_inputs,
            *["that do not run live"] * options.live,
        ]
        if refused:
            parser.error(f"files of expected outputs are of cases {refused[0]}")
    expected: dict[int, Found] | None = None
    seed: int = 1 if options.seed is None else options.seed
    if options.against is not None:
        try:
            seed, expected = stored.read(options.against)
        except stored.StoredError as error:
            print(error, file=sys.stderr)
            return 2
    numbers: list[int] = options.case or list(range(20 if options.cases is None else options.cases))
    if expected is not None:
        if options.seed not in (None, seed):
            parser.error(f"{options.against} has the outputs of seed {seed}")
        if not options.case:
            numbers = sorted(expected)[: options.cases]
        missing = sorted(set(numbers) - expected.keys())
        if missing:
            parser.error(f"{options.against} has no case {missing[0]}")
    with ExitStack() as stack:
        engines = dict(INTERPRETER)
        if not options.local:
            engines |= _spark(
                stack, batch=options.batch, live=options.live, saved=options.saved, rescaled=options.rescaled
            )
        files = None
        if options.columns or options.live:
            files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windrow-differential-")))
        kind = {"one_batch": options.batch, "files": files, "two_inputs": options.two_inputs, "live": options.live}
        return run(seed, numbers, engines, kind, expected=expected, write=options.write)


def _count(text: str) -> int:
    """An argument that is a number from 1 up: to compare nothing is no success."""
    number = _number(text)
    if number == 0:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number from 0 up, not {text!r}")
    return int(text)


def run(
    seed: int,
    numbers: Sequence[int],
    engines: Engines,
    kind: Mapping[str, Any],
    *,
    expected: dict[int, Found] | None = None,
    write: Path | None = None,
) -> int:
    """Check cases of a kind, see :class:`Prepared`, group by group, and print how it went.

    Returns:
        0 if all cases are equal, else 1.
    """
    reference: dict[int, Found] = {}
    failed: set[int] = set()
    for group in grouped(numbers):
        begin = time.monotonic()
        checked = check(Prepared(seed, group, **kind), engines, expected)
        reference |= checked.reference
        for failure in checked.failures:
            print(failure.report, end="\n\n")
            failed.update(failure.numbers)
        named = f"case {group[0]}" if len(group) == 1 else f"cases {group[0]} to {group[-1]}"
        verdict = "some differ" if checked.failures else "equal"
        print(f"{named}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
    if write is not None:
        stored.write(write, seed, reference)
    silent = sum(not found.size for found in reference.values())
    size = sum(found.size for found in reference.values())
    compared = ", ".join(engines)
    print(
        f"{len(numbers)} cases of seed {seed}, {size} elements, {silent} cases without any, on {compared}: "
        f"{len(numbers) - len(failed)} equal, {len(failed)} different"
    )
    return 1 if failed else 0


# The engines of a session that `stack` stops.
def _spark(stack: ExitStack, *, batch: bool, live: bool, saved: bool, rescaled: bool) -> Engines:
    from tests.differential.live import live_engine
    from tests.differential.rescaled import print_ends, rescale_twice, run_rescaled
    from tests.differential.saved import saved_engines
    from tests.spark.session import embedded_session
    from windrow_runtime.spark import SparkRunner

    warehouse = stack.enter_context(tempfile.TemporaryDirectory(prefix="windrow-differential-"))
    spark = stack.enter_context(embedded_session(Path(warehouse)))
    if rescaled:
        stack.callback(print_ends)
    if live:
        return {"Spark": live_engine(spark, partial(rescale_twice, spark) if rescaled else None)}
    if saved:
        return saved_engines(spark)
    if rescaled:
        return {"Spark with 2, 7 and 3 partitions": partial(run_rescaled, spark)}
    if batch:
        return {"Spark": lambda pipeline, clock: SparkRunner(spark).run_batch(pipeline)}
    return {"Spark": lambda pipeline, clock: SparkRunner(spark, clock=clock).run(pipeline)}


if __name__ == "__main__":
    sys.exit(main())

"""Runs a pipeline, prints what its CollectSinks took to stdout, and a summary to stderr.

Without a checkpoint the run takes what the sources have now, fires what is open at their end, and keeps nothing. With
one, on Spark, it runs until Ctrl-C stops it after the batch at hand, and a later run goes on from there.
"""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING

from windrow import Pipeline
from windrow.addresses.paths import checked_path
from windrow.errors import InvalidArgumentError
from windrow.plan import Step
from windrow.sinks import CollectSink
from windrow_runtime.codecs.json.encoder import JsonEncoder
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.local import LocalRunner
from windrow_runtime.operators.errors import field_errors
from windrow_runtime.operators.outcome import losses_in
from windrow_runtime.operators.topology import sink_of
from windrow_runtime.outputs.result import PipelineResult
from windrow_tools.command.failures import ExitCode
from windrow_tools.command.user_file import (
    add_accepted,
    add_pipeline,
    add_renamed,
    check_beside,
    chosen_pipeline,
    renamed_in,
)

if TYPE_CHECKING:
    from windrow_runtime.lineage import OpenLineage
    from windrow_spark import RunningPipeline
    from windrow_tools.command.health import Ask
    from windrow_tools.view import RunHistory
    from windrow_tools.view.follow import Running

_STOPPING = "windrow: stopping after the batch at hand; Ctrl-C again breaks it off"


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    add_pipeline(parser)
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="the interpreter, which is the default, or Spark"
    )
    parser.add_argument("--checkpoint", metavar="DIR", help="the folder from which a run on Spark goes on")
    parser.add_argument(
        "--savepoint",
        metavar="DIR",
        help="the savepoint from which a new checkpoint begins; the same run may go on with it",
    )
    add_renamed(parser)
    parser.add_argument(
        "--available-now", action="store_true", help="take what the sources have now and end, also with a checkpoint"
    )
    parser.add_argument(
        "--drain",
        action=BooleanOptionalAction,
        default=None,
        help="whether the end of the run is the end of the stream, so that open windows fire; a checkpoint cannot be "
        "used again then. By default it is without a checkpoint; with one, the run still goes on until Ctrl-C unless "
        "--available-now is given, too",
    )
    parser.add_argument(
        "--interval", type=float, metavar="SECONDS", help="how often a batch begins; by default one follows the other"
    )
    add_accepted(parser)
    parser.add_argument(
        "--view", action="store_true", help="show a live table of the run on Spark in the terminal that stderr is"
    )
    parser.add_argument(
        "--dashboard",
        type=int,
        metavar="PORT",
        help="serve a page about the run on Spark to browsers of this machine; 0 takes a free port. The address is "
        "printed to stderr",
    )
    parser.add_argument(
        "--health",
        type=int,
        metavar="PORT",
        help="answer probes, as those of Kubernetes, at /livez and /readyz of a port of all IPv4 addresses of the "
        "machine; 0 takes a free one. Only for a run that goes on until Ctrl-C",
    )
    parser.add_argument(
        "--lineage",
        action="store_true",
        help="send events of OpenLineage about the run, by the settings in the environment, such as OPENLINEAGE_URL",
    )
    parser.add_argument(
        "--no-progress",
        action="store_true",
        help="show no progress of a run that ends by itself, which is shown in the terminal that stderr is",
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="how collected elements are printed: repr, or JSON"
    )


def prepare(options: Namespace) -> Callable[[], int]:
    """Imports the pipeline and checks the options; returns the run."""
    goes_on = options.checkpoint is not None and not options.available_now
    if options.engine == "local" and options.checkpoint is not None:
        raise InvalidArgumentError(
            "the interpreter has no checkpoints", given="--checkpoint", expected="--engine spark"
        )
    if options.checkpoint is not None:
        checked_path(options.checkpoint, "a checkpoint is kept at")  # a variable of the shell that is not set is empty
    for option, what, value in (("--interval", "interval", options.interval), ("--health", "probes", options.health)):
        if value is not None and not goes_on:
            raise InvalidArgumentError(
                f"a run that ends by itself has no {what}",
                given=option,
                expected="--engine spark with --checkpoint, and without --available-now",
            )
    if options.interval is not None and not options.interval >= 0:
        raise InvalidArgumentError("an interval is not negative", given=f"--interval {options.interval}")
    _check_changes(options)
    if options.engine == "local" and (options.view or options.dashboard is not None):
        raise InvalidArgumentError(
            "the interpreter makes no reports on its batches, which views show",
            given="--view" if options.view else "--dashboard",
            expected="--engine spark",
        )
    # `rich` may be missing, so a view is imported only where it is asked for.
    if options.view:
        from windrow_tools.view.terminal import check_rich

        check_rich()
    if options.dashboard is not None:
        from windrow_tools.view.dashboard import check_port

        check_port(options.dashboard)  # before Spark starts, and a batch with it
    if options.health is not None:
        from windrow_tools.command.health import check_port

        check_port(options.health)
    lineage: OpenLineage | None = None
    if options.lineage:
        from windrow_runtime.lineage import OpenLineage

        lineage = OpenLineage()
    pipeline = chosen_pipeline(options)
    if options.engine == "spark":
        check_beside()
    print_elements = _json_printer(pipeline) if options.format == "json" else _text_printer(pipeline)
    drain = options.checkpoint is None if options.drain is None else bool(options.drain)

    def run() -> int:
        if options.engine == "local":
            runner = LocalRunner(progress=not options.no_progress, lineage=lineage)
            result, is_interrupted = _run_locally(runner, pipeline, drain=drain)
        else:
            result, is_interrupted = _run_on_spark(pipeline, options, lineage, drain=drain, goes_on=goes_on)
        print_elements(result)
        sys.stdout.flush()
        print(*_summary(result, is_interrupted=is_interrupted), sep="\n", file=sys.stderr)
        return ExitCode.INTERRUPTED if is_interrupted else ExitCode.OK

    return run


def _check_changes(options: Namespace) -> None:
    """Refuses a savepoint, and changes of the plan, where no checkpoint begins or goes on with it."""
    if options.accept_changes and options.checkpoint is None:
        raise InvalidArgumentError(
            "only a run that goes on from a checkpoint has changes to accept", given="--accept-changes"
        )
    if options.savepoint is not None and options.checkpoint is None:
        raise InvalidArgumentError(
            "only a new checkpoint begins from a savepoint", given="--savepoint", expected="--checkpoint DIR beside it"
        )
    if renamed_in(options) and options.savepoint is None:
        raise InvalidArgumentError(
            "steps are renamed between a savepoint and a plan",
            given="--renamed",
            expected="--savepoint DIR beside it",
            hint="windrow upgrade gives a checkpoint a plan with other names",
        )


def _run_locally(runner: LocalRunner, pipeline: Pipeline, *, drain: bool) -> tuple[PipelineResult, bool]:
    interruptions = 0

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal interruptions
        interruptions += 1
        # The sender of SIGTERM waits for some seconds only, and the whole input may be one batch.
        if interruptions > 1 or number != signal.SIGINT:
            raise KeyboardInterrupt
        print(_STOPPING, file=sys.stderr)
        runner.stop()

    with _on_ctrl_c(interrupt):
        result = runner.run(pipeline, drain=drain)
    return result, interruptions > 0


@contextmanager
def _on_ctrl_c(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run_on_spark(
    pipeline: Pipeline, options: Namespace, lineage: OpenLineage | None, *, drain: bool, goes_on: bool
) -> tuple[PipelineResult, bool]:
    # Spark only where it is asked for: the interpreter runs without it.
    from windrow_spark import PipelineProgress, SparkRunner
    from windrow_tools.view import RunHistory

    def add(report: PipelineProgress) -> None:
        history.add(report)

    print("windrow: waiting for Spark to start, which takes some seconds, and for its first batch", file=sys.stderr)
    has_history = not goes_on and (options.view or options.dashboard is not None)
    runner = SparkRunner(
        checkpoint=options.checkpoint,
        verbose=options.verbose,
        accept_changes=options.accept_changes,
        savepoint=options.savepoint,
        renamed=renamed_in(options),
        on_progress=add if has_history else None,
        progress=not (options.view or options.no_progress),
        lineage=lineage,
    )
    history = RunHistory(pipeline, runner.forms(pipeline) if has_history else None)
    if not goes_on:
        with _viewed(history, options), _ended(history):
            return runner.run(pipeline, drain=drain), False
    with _probed(options) as tell:
        running = runner.start(pipeline, interval_seconds=options.interval or 0.0)
        tell(running.health)
        return _until_ctrl_c(pipeline, running, options, drain=drain)


@contextmanager
def _probed(options: Namespace) -> Iterator[Callable[[Ask], None]]:
    """Answers probes, if the options ask for it, until the end of the block, which tells whom to ask."""
    if options.health is None:
        yield lambda ask: None
        return
    from windrow_tools.command.health import probed

    with probed(options.health) as server:
        print(f"windrow: probes are answered at port {server.server_port}: /livez, /readyz", file=sys.stderr)

        def tell(ask: Ask) -> None:
            server.ask = ask

        yield tell


def _until_ctrl_c(
    pipeline: Pipeline, running: RunningPipeline, options: Namespace, *, drain: bool
) -> tuple[PipelineResult, bool]:
    ending = "--available-now --drain" if drain else "--available-now"
    print(f"windrow: {pipeline.name} runs until Ctrl-C; with {ending} it ends by itself", file=sys.stderr)
    is_interrupted = False
    with _viewed(running, options):
        try:
            running.await_termination()
        except KeyboardInterrupt:
            is_interrupted = True
            print(_STOPPING, file=sys.stderr)
        return running.drain() if drain else running.stop(), is_interrupted


@contextmanager
def _viewed(running: RunHistory | Running, options: Namespace) -> Iterator[None]:
    """Shows a run as the options say, until the end of the block."""
    from windrow_tools.view import dashboard
    from windrow_tools.view.follow import history_of
    from windrow_tools.view.terminal import shown_in_terminal

    with ExitStack() as views:
        if options.dashboard is not None:
            page = views.enter_context(dashboard(running, port=options.dashboard))
            print(f"windrow: the run is shown at {page.url}", file=sys.stderr)
        if options.view:
            history, refresh = views.enter_context(history_of(running))
            views.enter_context(shown_in_terminal(history))
            views.callback(refresh)
        yield


@contextmanager
def _ended(history: RunHistory) -> Iterator[None]:
    """Tells a history how the block ended."""
    try:
        yield
    except BaseException as error:
        history.end(error)
        raise
    history.end()


def _collecting(pipeline: Pipeline) -> list[tuple[Step, CollectSink[object]]]:
    steps = [step for step in pipeline.steps if step.node.is_sink]
    return [(step, sink) for step in steps if isinstance(sink := sink_of(step), CollectSink)]


def _names(pipeline: Pipeline) -> list[str]:
    """Returns the name under which each CollectSink is printed: its own, with a number if several have it."""
    own_names = [sink.name for _, sink in _collecting(pipeline)]
    names: list[str] = []
    for name in own_names:
        numbered = (f"{name} {number}" for number in count(1))
        is_alone = own_names.count(name) == 1
        names.append(name if is_alone else next(each for each in numbered if each not in [*own_names, *names]))
    return names


def _text_printer(pipeline: Pipeline) -> Callable[[PipelineResult], None]:
    """Returns what prints a line for each element: its repr, after the name of its sink if there are several."""
    sinks = [sink for _, sink in _collecting(pipeline)]
    prefixes = [f"{name}: " for name in _names(pipeline)] if len(sinks) > 1 else [""]

    def print_elements(result: PipelineResult) -> None:
        for prefix, sink in zip(prefixes, sinks, strict=False):
            for element in result.collected(sink):
                print(f"{prefix}{element!r}")

    return print_elements


def _json_printer(pipeline: Pipeline) -> Callable[[PipelineResult], None]:
    """Returns what prints a JSON object for each element, with the sink and the value as a JsonFileSink writes it."""
    encoders = []
    for (step, sink), name in zip(_collecting(pipeline), _names(pipeline), strict=True):
        if step.node.element_type is None:
            raise InvalidArgumentError(
                "elements of an unknown type cannot be written as JSON",
                given=sink.describe(),
                where=step.where,
                hint="call returns(Type) before sink_to, or leave out --format json",
            )
        with field_errors(step.where):
            encoders.append((name, sink, JsonEncoder(record_type(step.node.element_type))))

    def print_elements(result: PipelineResult) -> None:
        for name, sink, encoder in encoders:
            for element in result.collected(sink):
                print(f'{{"sink":{json.dumps(name)},"value":{encoder.encode(element)}}}')

    return print_elements


def _summary(result: PipelineResult, *, is_interrupted: bool) -> Iterator[str]:
    """Yields the lines of the summary: how it ended, totals, and the counters of each step."""
    sinks = _collecting(result.pipeline)
    collected = sum(len(result.collected(sink)) for _, sink in sinks)
    printed = {step.id for step, _ in sinks}
    others = [count for step, count in result.written.items() if step not in printed]
    counts = [(collected, "collected")] * bool(sinks) + [(sum(others), "written")] * bool(others)
    counted = "".join(f"{count:,} {'element' if count == 1 else 'elements'} {verb}, " for count, verb in counts)
    dropped: Counter[str] = Counter()
    for counters in result.counters.values():
        dropped.update(losses_in(counters))
    late = dropped["late_records_dropped"]
    yield (
        f"{result.pipeline.name} {'was stopped' if is_interrupted else 'ended'}: "
        f"{counted}{late:,} dropped as late, {dropped.total() - late:,} dropped otherwise"
    )
    for step in result.pipeline.steps:
        for name, total in sorted(result.counters.get(step.id, {}).items()):
            yield f"  {step.where}: {name} {total:,}"

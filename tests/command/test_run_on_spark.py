"""`windrow run` on Spark, as users run it: a process of its own, the machine's clock, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from tests.command.conftest import Command, Write
from tests.command.programs import COUNTS
from tests.dsl.plan_formats import check_json, check_svg
from tests.services.server import LOOPBACK, free_ports
from tests.spark.test_lifecycle import wait_for
from tests.terminals import seen_of
from windrow import Pipeline
from windrow.plan import Form
from windrow_runtime.local import LocalRunner
from windrow_runtime.metrics.reports import StepProgress
from windrow_runtime.outputs.result import PipelineResult
from windrow_runtime.spark import PipelineProgress
from windrow_runtime.view import RunHistory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = """\
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windrow import Pipeline, from_source
from windrow.functions import KeyedProcessContext, KeyedProcessFunction
from windrow.sinks import CollectSink, JsonFileSink
from windrow.sources import JsonFileSource
from windrow.state import ValueStateDescriptor
from words import upper

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Order:
    shop: str
    amount: int


class Total(KeyedProcessFunction[str, Order, Order]):
    total = ValueStateDescriptor("total", Order)

    def process_element(self, value: Order, context: KeyedProcessContext[str]) -> Iterator[Order]:
        state = context.get_state(self.total)
        before = state.value()
        total = Order(upper(value.shop), value.amount + (0 if before is None else before.amount))
        state.update(total)
        yield total


def pipeline() -> Pipeline:
    orders = from_source(JsonFileSource(HERE / "in", Order))
    totals = orders.key_by(lambda order: order.shop).process(Total())
    return Pipeline("orders", totals.sink_to(CollectSink()), totals.sink_to(JsonFileSink(HERE / "out")))


if __name__ == "__main__":
    import os
    import socket

    from windrow_runtime.spark import SparkRunner

    if "renamed" in sys.argv:
        socket.sethostname("does-not-resolve.invalid")
    SparkRunner(checkpoint=HERE / "checkpoint", verbose=True).run(pipeline(), drain=False)
    print("SPARK_LOCAL_IP" in os.environ)
"""
"""A program that keeps objects of a class of its own as state, and has a module beside it."""


def arrive(folder: Path, name: str, *amounts: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f'{{"shop":"a","amount":{amount}}}\n' for amount in amounts))
    hidden.rename(folder / "in" / f"{name}.json")


def renaming() -> tuple[list[str], list[str]]:
    """What stands before and behind a command whose machine gets a name that does not resolve; only root may do so."""
    try:
        may_rename = subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        may_rename = False
    return (["unshare", "--uts"], ["renamed"]) if may_rename else ([], [])


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "windrow_runtime.command", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)


def without_java(text: str) -> list[str]:
    """What is on stderr but for the line of Java's, and that which says that the command waits for it."""
    waiting = "WARNING: Using incubator", "windrow: waiting for Spark to start"
    return [line for line in text.splitlines() if not line.startswith(waiting)]


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        arguments, cwd=folder, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def written(folder: Path) -> list[str]:
    return [line for file in sorted((folder / "out").glob("batch-*.json")) for line in file.read_text().splitlines()]


def write_orders(write: Write, name: str) -> None:
    write("words.py", "def upper(word: str) -> str:\n    return word.upper()\n")
    write(name, ORDERS)


@pytest.mark.program
@pytest.mark.classic(reason="files are handed to the workers of a classic session")
def test_a_run_goes_on_where_ctrl_c_has_stopped_it(
    spark: SparkSession, windrow: Command, write: Write, tmp_path: Path
) -> None:
    write_orders(write, "orders_job.py")
    arrive(tmp_path, "first", 1)
    # The program itself began the checkpoint, in which its classes are those of a main module. Workers find the module
    # beside it. A runner that is not verbose keeps Spark's log off stderr, see test_quiet.py.
    before, behind = renaming()
    began = run(tmp_path, *before, sys.executable, "orders_job.py", *behind)
    assert (began.returncode, began.stdout.splitlines()[-1]) == (0, "False"), began.stderr
    assert 'Setting default log level to "WARN".' in began.stderr
    assert written(tmp_path) == ['{"shop":"A","amount":1}']
    options = ("--engine", "spark", "--checkpoint", "checkpoint")
    checked = windrow("check-upgrade", "checkpoint", "orders_job.py")
    assert (checked.code, checked.err) == (0, "")
    arrive(tmp_path, "second", 2)
    with started(tmp_path, *command("run", "orders_job.py", *options, "--interval", "0.1")) as process:
        wait_for(lambda: len(written(tmp_path)) == 2 or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, which tells Java and the workers, too
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == "Order(shop='A', amount=3)\n"
    assert err.startswith("windrow: waiting for Spark to start, which takes some seconds, and for its first batch\n")
    assert without_java(err) == [
        "windrow: orders runs until Ctrl-C; with --available-now it ends by itself",
        "windrow: stopping after the batch at hand; Ctrl-C again breaks it off",
        "orders was stopped: 1 element collected, 1 element written, 0 dropped as late, 0 dropped otherwise",
    ]
    arrive(tmp_path, "third", 4)
    for name in ("words.py", "orders_job.py"):
        spark.sparkContext.addPyFile(str(tmp_path / name))  # the session is older than they
    last = windrow("run", "orders_job.py", *options, "--available-now", "--format", "json")
    assert (last.code, last.out) == (0, '{"sink":"collect","value":{"shop":"A","amount":7}}\n'), last.err


@pytest.mark.classic(reason="files are handed to the workers of a classic session")
def test_without_a_checkpoint_a_run_ends_by_itself(spark: SparkSession, windrow: Command, write: Write) -> None:
    file = write("counts_on_spark.py", COUNTS)
    spark.sparkContext.addPyFile(str(file))  # the session is older than the file
    done = windrow("run", "counts_on_spark.py", "--engine", "spark")
    assert (done.code, done.out) == (0, "1\n1\n1\n")
    assert "counts ended: 3 elements collected, 1 dropped as late, 0 dropped otherwise" in done.err
    assert windrow("run", "counts_on_spark.py", "--engine", "spark", "--no-drain").out == "1\n"


@pytest.mark.program
def test_a_terminal_shows_the_table_of_a_run_that_ends(write: Write, tmp_path: Path) -> None:
    write_orders(write, "viewed.py")
    arrive(tmp_path, "first", 1, 2)
    seen = seen_of(tmp_path, "-m", "windrow_runtime.command", "run", "viewed.py", "--engine", "spark", "--view")
    assert seen.code == 0, seen.last
    assert seen.output == "Order(shop='A', amount=1)\nOrder(shop='A', amount=3)\n"
    assert "orders  no batch is done yet" in {row for screen in seen.screens for row in screen}
    table = [row.split() for row in without_java("\n".join(seen.last)) if row]
    assert table[0][:3] == ["orders", "ended,", "batch"]
    rows = ["step in", "1 source", "3 process", "4 sink", "5 sink", "orders ended:"]
    assert [" ".join(row[:2]) for row in table[-6:]] == rows


@pytest.mark.classic(reason="files are handed to the workers of a classic session")
def test_a_page_and_probes_show_a_run_until_sigterm(
    spark: SparkSession, windrow: Command, write: Write, tmp_path: Path
) -> None:
    write_orders(write, "paged.py")
    for name in ("words.py", "paged.py"):
        spark.sparkContext.addPyFile(str(tmp_path / name))  # the session is older than they
    arrive(tmp_path, "first", 1, 2)
    ports = free_ports(2)
    page, probes = (f"http://{LOOPBACK}:{port}/" for port in ports)
    own = signal.getsignal(signal.SIGTERM)

    def seen() -> list[dict[str, Any]]:
        """Follows the run beside it, and has it end behind its first batch."""
        try:
            wait_for(lambda: answers(f"{probes}livez").get("state") in {"starting", "running"})
            wait_for(lambda: bool(answers(page)))
            with urlopen(f"{page}events", timeout=60) as events:
                told = (json.loads(each[6:]) for each in events if each.startswith(b"data: "))
                assert next(run for run in told if run["batch"] is not None)["rows"] == 2
                assert answers(f"{probes}readyz")["ready"]
                os.kill(os.getpid(), signal.SIGTERM)
                return list(told)
        except BaseException:
            if signal.getsignal(signal.SIGTERM) is not own:  # the run goes on
                os.kill(os.getpid(), signal.SIGTERM)
            raise

    options = ("--engine", "spark", "--checkpoint", "checkpoint", "--interval", "0.1")
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(seen)
        done = windrow("run", "paged.py", *options, "--dashboard", ports[0], "--health", ports[1])
    *_, last, over = following.result()
    assert (last["state"], over) == ("ended", {})
    assert (done.code, done.out) == (143, "Order(shop='A', amount=1)\nOrder(shop='A', amount=3)\n"), done.err
    assert f"windrow: the run is shown at {page}\n" in done.err


# Any: what JSON holds.
def answers(url: str) -> dict[str, Any]:
    """What is answered, if it is JSON; nothing, as long as there is no server."""
    try:
        with urlopen(url, timeout=10) as answer:
            text = answer.read()
    except OSError:
        return {}
    return json.loads(text) if text.startswith(b"{") else {"page": text}


class InterpretedRunner:
    """Runs pipelines by the interpreter, in the place of a runner of Spark's, and reports on them as one batch."""

    def __init__(self, *, on_progress: Callable[[PipelineProgress], object], **options: object) -> None:
        self._on_progress = on_progress

    def forms(self, pipeline: Pipeline) -> dict[str, Form]:
        return {}

    def run(self, pipeline: Pipeline, *, drain: bool) -> PipelineResult:
        result = LocalRunner(progress=False).run(pipeline, drain=drain)
        steps = {step.id: StepProgress(dropped=result.counters.get(step.id, {})) for step in pipeline.steps}
        self._on_progress(PipelineProgress(0, 1, 0, True, steps))
        return result


def test_a_page_about_a_run_that_ends_has_what_was_dropped(
    windrow: Command, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[RunHistory] = []

    @contextmanager
    def served(history: RunHistory, *, port: int) -> Iterator[SimpleNamespace]:
        shown.append(history)
        yield SimpleNamespace(url=f"http://127.0.0.1:{port}/")

    monkeypatch.setattr("windrow_spark.SparkRunner", InterpretedRunner)
    monkeypatch.setattr("windrow_tools.view.dashboard", served)
    write("dropped.py", COUNTS)
    assert windrow("run", "dropped.py", "--engine", "spark", "--dashboard", "1").code == 0
    (history,) = shown
    assert (history.snapshot().state, history.snapshot().dropped) == ("ended", 1)


@pytest.mark.classic(reason="files are handed to the workers of a classic session")
def test_ctrl_c_drains_where_the_stream_shall_end(
    spark: SparkSession, windrow: Command, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from windrow_runtime.spark import RunningPipeline

    def interrupted(running: RunningPipeline) -> bool:
        running.process_available()
        raise KeyboardInterrupt

    monkeypatch.setattr(RunningPipeline, "await_termination", interrupted)
    spark.sparkContext.addPyFile(str(write("drained_counts.py", COUNTS)))
    options = ("--engine", "spark", "--checkpoint", tmp_path / "checkpoint")
    done = windrow("run", "drained_counts.py", *options, "--drain")
    assert (done.code, done.out) == (130, "1\n1\n1\n")
    assert "counts was stopped: 3 elements collected" in done.err
    assert "counts runs until Ctrl-C; with --available-now --drain it ends by itself" in done.err
    done = windrow("run", "drained_counts.py", *options)
    assert done.code == 1
    assert "the checkpoint was drained: its stream is at its end" in done.err


@pytest.mark.classic(reason="files are handed to the workers of a classic session")
def test_what_a_function_raises_in_a_worker_comes_with_its_own_traceback_alone(
    spark: SparkSession, windrow: Command, write: Write
) -> None:
    text = f"{COUNTS}\nbad = Pipeline('bad', readings().map(lambda r: r.at // 0).returns(int).sink_to(CollectSink()))\n"
    spark.sparkContext.addPyFile(str(write("raises_on_spark.py", text)))
    done = windrow("run", "raises_on_spark.py:bad", "--engine", "spark")
    assert (done.code, done.out) == (1, "")
    before, _, after = done.err.partition("\nwindrow: a function of the step raised ZeroDivisionError: ")
    assert "ZeroDivisionError: integer division or modulo by zero" in before
    assert "raises_on_spark.py" in before
    assert "where:    bad.3.map, " in after
    assert "windrow_runtime/" not in done.err
    assert "windrow_spark/" not in done.err
    assert "py4j" not in done.err


@pytest.mark.spark
def test_explain_says_how_each_engine_runs_a_step(windrow: Command, write: Write) -> None:
    write("explained.py", COUNTS)
    plan = windrow("explain", "explained.py").out
    assert "4 window" in plan
    assert "runs as" not in plan
    assert "runs as Python, loop of tumbling windows\n" in windrow("explain", "explained.py", "--engine", "local").out
    assert "not on columns: " in windrow("explain", "explained.py", "--engine", "spark").out
    document = check_json(windrow("explain", "explained.py", "--engine", "spark", "--format", "json").out)
    assert document["runner"] == "SparkRunner"
    assert check_svg(windrow("explain", "explained.py", "--format", "svg").out)[0] == f"pipeline {document['pipeline']}"


def test_spark_that_is_missing_is_named_without_a_stack(write: Write, tmp_path: Path) -> None:
    write("no_spark.py", COUNTS)
    write("checkpoint/plan", "")
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'pyspark': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from windrow_tools.command.program import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for arguments, code in (
        (["run", "no_spark.py", "--engine", "spark"], 1),
        (["explain", "no_spark.py", "--engine", "spark"], 1),
        (["check-upgrade", "checkpoint", "no_spark.py"], 2),
        (["replay", "checkpoint", "no_spark.py"], 2),
        (["run", "no_spark.py"], 0),
    ):
        done = run(tmp_path, sys.executable, "-c", program, *arguments)
        assert done.returncode == code, done.stderr
        assert ("windrow: PySpark is not installed" in done.stderr) is (code > 0)
        assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path / "checkpoint") == ["plan"]

"""`windrow check-upgrade` says of a checkpoint and a program what a run would say when it starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.command.conftest import Command, Done, Write
from tests.command.programs import ONE
from tests.spark.checkpoints.archives import archives, unpack
from windrow.errors import IncompatibleStateError
from windrow_runtime.spark import SparkRunner
from windrow_tools.command.user_file import named_pipeline

pytestmark = pytest.mark.classic(reason="files are handed to the workers of a classic session")

KEPT = """\
from tests.spark.checkpoints import kept

def pipeline():
    return kept.pipeline(kept.READINGS)[0]
"""

PROGRAM = dedent("""\
    from collections.abc import Iterator
    from dataclasses import dataclass
    from datetime import timedelta
    from windrow import Pipeline, WatermarkStrategy, from_source
    from windrow.functions import KeyedProcessContext, KeyedProcessFunction, TimeDomain
    from windrow.sinks import CollectSink
    from windrow.sources import CollectionSource
    from windrow.state import StateTtlConfig, ValueStateDescriptor
    from windrow.windows import TumblingEventTimeWindows

    @dataclass(frozen=True)
    class Order:
        shop: str
        at: int
        # coupon

    class Seen(KeyedProcessFunction[str, Order, Order]):
        seen = ValueStateDescriptor("seen", int)
        # state

        def process_element(self, value: Order, context: KeyedProcessContext[str]) -> Iterator[Order]:
            context.get_state(self.seen).update(value.at)
            yield value

    orders = from_source(CollectionSource([Order("a", 1), Order("b", 2)], Order)).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda order: order.at
    )
    keyed = orders.key_by(lambda order: order.shop)
    newest = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=5))).reduce(lambda a, b: b)
    seen = keyed.process(Seen())
    pipeline = Pipeline("orders", newest.sink_to(CollectSink()), seen.sink_to(CollectSink()))
""")


def test_a_kept_checkpoint_goes_on(windrow: Command, write: Write, tmp_path: Path) -> None:
    unpack(next(each for each in archives() if each.name.startswith("kept")), tmp_path / "checkpoint")
    files = {file: file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()}
    write("kept_now.py", KEPT)
    done = windrow("check-upgrade", tmp_path / "checkpoint", "kept_now.py:pipeline")
    assert (done.code, done.err) == (0, "")
    first, *steps, last = done.out.splitlines()
    assert first.endswith("batches 0 to 6, begun by windrow 0.1.0, on 2 partitions with 2 key groups each")
    assert [line.partition(",")[0] for line in steps] == [
        f"goes on: kept.{step}" for step in ("4.coldest", "10.sessions", "12.watch", "14.sum", "17.window")
    ]
    assert last == "kept may go on from this checkpoint"
    assert {file: file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()} == files


def test_another_plan_is_refused(windrow: Command, write: Write, tmp_path: Path) -> None:
    unpack(next(each for each in archives() if each.name.startswith("kept")), tmp_path / "checkpoint")
    write("other.py", ONE)
    done = windrow("check-upgrade", tmp_path / "checkpoint", "other.py")
    assert (done.code, done.err) == (1, "")
    assert "refused: coldest (TumblingEventTimeWindows(size=300 ms)) is gone\n" in done.out
    assert (
        "one may not go on from this checkpoint\n  hint:     windrow upgrade CHECKPOINT FILE moves the state"
        in done.out
    )
    # A file that is lost keeps every plan from going on.
    (tmp_path / "checkpoint" / "plan").unlink()
    done = windrow("check-upgrade", tmp_path / "checkpoint", "other.py")
    assert done.code == 2
    assert "the checkpoint is damaged" in done.err


def test_a_folder_without_a_checkpoint(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("any_plan.py", ONE)
    done = windrow("check-upgrade", "nothing", "any_plan.py")
    assert (done.code, done.out) == (2, "")
    assert "there is no checkpoint of a pipeline" in done.err
    assert not (tmp_path / "nothing").exists()
    assert "expected: a checkpoint in a mounted file system" in windrow("check-upgrade", "s3a://b/c", "any_plan.py").err


MOVES: list[tuple[str, ...]] = [
    ("upgrade", "nothing", "any_plan.py"),
    ("rescale", "nothing", "any_plan.py", "--partitions", "2"),
    ("savepoint", "nothing", "any_plan.py", "saved"),
]


@pytest.mark.parametrize("call", MOVES)
def test_what_needs_workers_starts_no_spark_without_a_checkpoint(
    call: tuple[str, ...], windrow: Command, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windrow_spark.savepoint.stopped.local_session", lambda cores: pytest.fail("Spark starts"))
    write("any_plan.py", ONE)
    done = windrow(*call)
    assert done.code == 2
    assert "there is no checkpoint of a pipeline\n  given:    nothing\n" in done.err


@pytest.mark.parametrize("command", ["check-upgrade", "replay"])
def test_a_file_in_the_place_of_the_checkpoint(command: str, windrow: Command, write: Write) -> None:
    write("swapped.py", ONE)
    done = windrow(command, "swapped.py", "checkpoint")
    assert (done.code, done.out) == (2, "")
    assert "the checkpoint is a file\n  given:    swapped.py\n" in done.err
    assert "CHECKPOINT comes before FILE: were the two swapped?" in done.err


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run of the first program."""
    folder = tmp_path_factory.mktemp("first")
    program = folder / "first_orders.py"
    program.write_text(PROGRAM)
    spark.sparkContext.addPyFile(str(program))  # the session is older than the file
    SparkRunner(spark, checkpoint=folder / "checkpoint").run(named_pipeline(str(program)), drain=False)
    return folder / "checkpoint"


def of_a_run(spark: SparkSession, checkpoint: Path, program: str, *accepted: str) -> str | None:
    """What a run refuses; None: it goes on."""
    spark.sparkContext.addPyFile(str(Path(program).absolute()))
    try:
        SparkRunner(spark, checkpoint=checkpoint, accept_changes=accepted).run(named_pipeline(program), drain=False)
    except IncompatibleStateError as error:
        return str(error.given)
    return None


def changed(*changes: Change) -> str:
    """The first program with some of its texts replaced."""
    text = PROGRAM
    for old, new in changes:
        text = text.replace(old, new)
    return text


def lines(done: Done, beginning: str) -> list[str]:
    return [line.removeprefix(beginning) for line in done.out.splitlines() if line.startswith(beginning)]


Change: TypeAlias = tuple[str, str]

NO_CHANGE = ("# none", "# none")
COUPON = ("# coupon", "coupon: str = ''"), "record type: Order.coupon is new: stored records get its default"
MORE = ("# state", "more = ValueStateDescriptor('more', int)"), "state 'more' is new, and begins empty"
TTL = (
    ('"seen", int', '"seen", int, ttl=StateTtlConfig(timedelta(hours=1), time_domain=TimeDomain.EVENT_TIME)'),
    "state 'seen': its time to live was without end and is 1 h of event time, which counts for stored values as well",
)
RENAMED = (
    ('"seen", int', '"before", int'),
    "state 'before' is new, and begins empty",
    "state 'seen' is gone: what is stored of it stays, and nothing reads it",
)
SHOWN_BY_ALL = pytest.mark.thorough(reason="a run goes on with all of the other changes at once")


@pytest.mark.parametrize(
    ("number", "changes", "kept"),
    [
        pytest.param(0, [NO_CHANGE], [], marks=SHOWN_BY_ALL),
        (1, [change for change, _ in (COUPON, MORE, TTL)], [said for _, said in (COUPON, MORE, TTL)]),
        (2, [RENAMED[0]], RENAMED[1:]),
    ],
)
def test_a_run_goes_on_with_what_it_keeps(
    number: int,
    changes: list[Change],
    kept: Sequence[str],
    windrow: Command,
    write: Write,
    checkpoint: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    name = f"kept_orders_{number}.py"
    write(name, changed(*changes))
    done = windrow("check-upgrade", checkpoint, name)
    assert [line for line in kept if line not in lines(done, "  ")] == []
    assert (done.code, lines(done, "refused: "), lines(done, "refused unless accepted: ")) == (0, [], [])
    shutil.copytree(checkpoint, tmp_path / "copy")
    assert of_a_run(spark, tmp_path / "copy", name) is None


@pytest.mark.parametrize(
    ("number", "change", "refused"),
    [
        (4, ("at: int", "at: float"), 2),  # in the windows and in the function
        (5, ("seconds=5", "seconds=6"), 1),
        (6, ('seen", int', 'seen", str'), 1),
        (7, ("newest.sink_to(CollectSink()), ", ""), 1),
        # No run takes keys of another type, so nothing is said of accepting them.
        (8, ("lambda order: order.shop", "lambda order: (order.shop, order.at)"), 4),
    ],
)
def test_it_refuses_what_a_run_refuses(
    number: int,
    change: Change,
    refused: int,
    windrow: Command,
    write: Write,
    checkpoint: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    name = f"orders_{number}.py"
    write(name, changed(change))
    done = windrow("check-upgrade", checkpoint, name)
    assert (done.code, len(lines(done, "refused: ")), lines(done, "refused unless accepted: ")) == (1, refused, [])
    shutil.copytree(checkpoint, tmp_path / "copy")
    assert of_a_run(spark, tmp_path / "copy", name) == "; ".join(lines(done, "refused: "))


def test_other_streams_are_accepted_by_name(
    windrow: Command, write: Write, checkpoint: Path, spark: SparkSession, tmp_path: Path
) -> None:
    write("other_key.py", PROGRAM.replace("lambda order: order.shop", "lambda order: order.shop.upper()"))
    done = windrow("check-upgrade", checkpoint, "other_key.py")
    moved = lines(done, "refused unless accepted: ")
    assert (done.code, len(moved), lines(done, "refused: ")) == (1, 2, [])
    shutil.copytree(checkpoint, tmp_path / "copy")
    assert of_a_run(spark, tmp_path / "copy", "other_key.py") == "; ".join(moved)
    steps = [line.partition(",")[0] for line in moved]
    accepted = [text for step in steps for text in ("--accept-changes", step)]
    assert windrow("check-upgrade", checkpoint, "other_key.py", *accepted).code == 0
    assert of_a_run(spark, tmp_path / "copy", "other_key.py", *steps) is None
    done = windrow("check-upgrade", checkpoint, "other_key.py", "--accept-changes", "nothing")
    assert done.code == 2
    assert "accept_changes names no step of the plan" in done.err


def test_a_drained_checkpoint_is_refused(windrow: Command, write: Write, spark: SparkSession, tmp_path: Path) -> None:
    spark.sparkContext.addPyFile(str(write("drained_orders.py", PROGRAM)))
    options = ("--engine", "spark", "--checkpoint", tmp_path / "checkpoint", "--available-now")
    assert windrow("run", "drained_orders.py", *options, "--drain").code == 0
    done = windrow("check-upgrade", tmp_path / "checkpoint", "drained_orders.py")
    assert done.code == 1
    assert "the checkpoint was drained: its stream is at its end" in done.err

"""A sink of the user's own in the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.custom_sinks import Ledger, numbers_of
from tests.outputs.outputs import output_of
from windrow import Pipeline, from_collection
from windrow.errors import InvalidArgumentError, PlanError, SinkError, UserFunctionError
from windrow.sinks import DatabaseSink
from windrow_runtime.local import LocalRunner


def run(sink: Ledger) -> None:
    LocalRunner().run(Pipeline("ledger", from_collection([1, 2, 3]).sink_to(sink)))


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


# On the driver it is open for the whole run, and on workers for each batch.
@pytest.mark.parametrize(("workers", "file"), [(False, "0-None.jsonl"), (True, "0-0.jsonl")])
def test_a_sink_is_opened_before_a_batch_and_closed(tmp_path: Path, workers: bool, file: str) -> None:
    run(Ledger(tmp_path, workers=workers))
    assert (tmp_path / file).read_text() == "1\n2\n3\n"
    assert calls(tmp_path) == ["open", "write 0", "close"]


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize(
    ("method", "given", "seen"),
    [
        ("open", r"open\(\) of Ledger", ["open"]),
        ("write", r"batch 0 of 3 elements, beginning with 1", ["open", "write 0", "close"]),
        ("close", r"close\(\) of Ledger", ["open", "write 0", "close"]),
    ],
)
def test_what_it_raises_names_the_step_and_the_call(
    tmp_path: Path, method: str, given: str, seen: list[str], *, workers: bool
) -> None:
    with pytest.raises(UserFunctionError, match=f"raised ConnectionError: no {method}") as caught:
        run(Ledger(tmp_path, workers=workers, fails_in=method))
    assert re.search(given, str(caught.value))
    assert re.search(r"ledger\.2\.sink, \S*test_custom_sinks\.py:\d+", str(caught.value))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert calls(tmp_path) == seen


def test_it_is_closed_where_another_sink_cannot_be_opened(tmp_path: Path) -> None:
    numbers = from_collection([1, 2, 3])
    named = numbers.map(lambda number: (number, "n")).returns(tuple[int, str])
    pipeline = Pipeline(
        "ledger",
        numbers.sink_to(Ledger(tmp_path)),
        named.sink_to(DatabaseSink(f"sqlite:///{tmp_path}/missing/numbers.db", "numbers")),
    )
    with pytest.raises(SinkError):
        LocalRunner().run(pipeline)
    assert calls(tmp_path) == ["open", "close"]
    assert numbers_of(tmp_path) == []


class Broken(Ledger):
    """A ledger that fails when it writes, and again when it is closed."""

    def _note(self, call: str) -> None:
        if call != "open":
            raise ConnectionError(f"no {call}")


@pytest.mark.parametrize("workers", [False, True])
def test_the_first_failure_is_raised_and_that_of_close_is_noted(tmp_path: Path, *, workers: bool) -> None:
    with pytest.raises(UserFunctionError, match=r"no write 0(.|\n)*batch 0 of 3 elements") as caught:
        run(Broken(tmp_path, workers=workers))
    assert caught.value.__notes__ == ["close() of the sink failed as well: no close"]


def test_one_sink_takes_one_stream(tmp_path: Path) -> None:
    numbers = from_collection([1, 2, 3])
    for first, second in [(sink := Ledger(tmp_path), sink), (Ledger(tmp_path), Ledger(tmp_path))]:
        with pytest.raises(PlanError, match="takes several streams"):
            Pipeline("ledgers", numbers.sink_to(first), numbers.map(lambda n: -n).sink_to(second))


class Method(Ledger):
    def on_workers(self) -> bool:  # type: ignore[override]  # what a user without a type checker may write
        return False


def test_who_writes_is_a_property(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"whether workers write a sink(.|\n)*@property before"):
        run(Method(tmp_path))


#  newest   0         5 again   5         4 again
#  None     goes on
#  5        refused   goes on   refused   refused
def test_its_newest_batch_refuses_an_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = output_of(int, Ledger(tmp_path))
    output.check(0, again=False)
    monkeypatch.setattr(Ledger, "newest_batch", lambda self: 5)
    output.check(5, again=True)
    for batch, again in ((0, False), (5, False), (4, True)):
        with pytest.raises(SinkError, match=rf"batch {batch} for Ledger, which has batch 5\n(.|\n)*older copy"):
            output.check(batch, again=again)
    monkeypatch.setattr(Ledger, "newest_batch", lambda self: "5")
    with pytest.raises(InvalidArgumentError, match="returns the number of a batch"):
        output.check(5, again=True)
    monkeypatch.setattr(Ledger, "newest_batch", lambda self: 1 // 0)
    with pytest.raises(UserFunctionError, match=r"newest_batch\(\) of Ledger"):
        output.check(5, again=True)

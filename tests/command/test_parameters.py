"""Parameters of the command line reach the function that makes a pipeline, as values of their types."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import List, Literal  # noqa: UP035  as users write it
from uuid import UUID

import pytest

from tests.command.conftest import Command, Write
from windrow.errors import InvalidArgumentError
from windrow_tools.command.parameters import parameters_of, settings_of, values_of

JOB = dedent("""\
    from __future__ import annotations
    from datetime import date
    from typing import TYPE_CHECKING
    from windrow import from_collection
    from windrow import Pipeline
    from windrow.sinks import CollectSink

    def job(date: date, limit: int = 10, dry_run: bool = False, sensors: list[str] = ["roof"]) -> Pipeline:
        return Pipeline("job", from_collection([(date.isoformat(), limit, dry_run, *sensors)]).sink_to(CollectSink()))
""")


class Colour(Enum):
    RED = 1
    BLUE = "b"


def made(
    text: str,
    number: int,
    share: float,
    flag: bool,
    day: date,
    at: datetime,
    clock: time,
    gap: timedelta,
    price: Decimal,
    path: Path,
    uuid: UUID,
    colour: Colour,
    level: Literal["low", 3],
    perhaps: int | None,
    names: list[str],
    numbers: Sequence[int],
    labels: list[str] | None = None,
    *,
    rest: object = None,
) -> None: ...


def values(*words: str, function: object = made) -> dict[str, object]:
    assert callable(function)
    parameters = parameters_of(function)
    assert parameters is not None
    return values_of(parameters, settings_of([], words), "job.py:made")


ALL = {
    "text": ("a b", "a b"),
    "number": ("-7", -7),
    "share": ("2.5", 2.5),
    "flag": ("no", False),
    "day": ("2026-01-31", date(2026, 1, 31)),
    "at": ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    "clock": ("12:30", time(12, 30)),
    "gap": ("1h30min", timedelta(minutes=90)),
    "price": ("1.10", Decimal("1.10")),
    "path": ("/a/b", Path("/a/b")),
    "uuid": ("12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
    "colour": ("BLUE", Colour.BLUE),
    "level": ("3", 3),
    "perhaps": ("4", 4),
    "names": ("x", ["x"]),
    "numbers": ("1", [1]),
    "labels": ("a", ["a"]),
}


def test_a_value_of_each_type() -> None:
    words = [word for name, (text, _) in ALL.items() for word in (f"--{name}", text)]
    assert values(*words) == {name: value for name, (_, value) in ALL.items()}
    assert values(*words, "--numbers", "2", "--names=")["numbers"] == [1, 2]


@pytest.mark.parametrize("text", ["1 h 30 min", "90m", "5400s", "5400000ms", "1.5h"])
def test_durations_are_written_as_people_say_them(text: str) -> None:
    def job(gap: timedelta) -> None: ...

    assert values("--gap", text, function=job) == {"gap": timedelta(minutes=90)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--number", "2.5"], "no value of the parameter number\n  given:    --number 2.5\n  expected: INTEGER"),
        (["--day", "31.1.2026"], "expected: 2026-01-31\n"),
        (["--gap", "soon"], "expected: DURATION, such as 90s"),
        (["--gap", "999999999999d"], "expected: DURATION, such as 90s"),  # longer than any timedelta
        (["--colour", "GREEN"], r"expected: RED\|BLUE"),
        (["--flag", "perhaps"], r"expected: true\|false"),
        (["--number"], "given:    --number\n"),
        (["--price", "x"], "expected: NUMBER"),
        (["--numbr", "2"], "has no such parameter(.|\n)*hint: +did you mean number?"),
        (["--rest", "2"], "has no such parameter"),
        (["--number", "1", "--number", "2"], "a parameter is set twice\n  given:    --number 2"),
        (["number=1"], "what follows -- sets parameters of the pipeline\n  given:    number=1"),
        (["--number", "1"], "needs arguments(.|\n)*expected: --text TEXT --share NUMBER"),
    ],
)
def test_what_is_no_value_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        values(*words)


def test_parameters_of_other_types_make_no_pipeline_from_the_command_line() -> None:
    def needs(stream: object) -> None: ...
    def needs_position(number: int, /) -> None: ...
    def several(*numbers: int, **others: int) -> None: ...
    def of_anything(items: List = []) -> None: ...  # type: ignore[type-arg]  # noqa: B006, UP006  as users write it
    def not_annotated(a, b=2): ...  # type: ignore[no-untyped-def]  # texts, as people type them

    assert parameters_of(needs) is None
    assert parameters_of(needs_position) is None
    assert parameters_of(several) == []
    assert parameters_of(of_anything) == []
    assert values("--a", "7", function=not_annotated) == {"a": "7"}
    assert parameters_of(partial(needs, 3)) == []
    assert values("--b", "x", function=partial(not_annotated, "7")) == {"b": "x"}


def test_parameters_reach_the_function_that_makes_the_pipeline(windrow: Command, write: Write) -> None:
    write("job.py", JOB)
    behind = "run job.py -- --date 2026-01-31 --limit=3 --dry-run --sensors hall --sensors yard"
    assert windrow(*behind.split())[:2] == (0, "('2026-01-31', 3, True, 'hall', 'yard')\n")
    done = windrow("run", "job.py:job", "--set", "date=2026-01-31", "--set", "dry-run=false")
    assert done[:2] == (0, "('2026-01-31', 10, False, 'roof')\n")
    assert windrow("explain", "job.py", "--set", "date=2026-02-01").code == 0
    done = windrow("run", "job.py")
    assert (done.code, done.out) == (2, "")
    assert "expected: --date 2026-01-31\n" in done.err
    assert "where:    job.py:job\n" in done.err
    assert "-- --date" in done.err
    done = windrow("run", "job.py", "--date", "2026-01-31", "--", "--limit", "3")
    assert (done.code, done.out) == (2, "")
    assert "windrow run FILE -- --date 2026-01-31\n" in done.err
    assert "a value is set by its name" in windrow("run", "job.py", "--set", "date").err


def test_a_function_that_needs_arguments_is_chosen_by_them(windrow: Command, write: Write) -> None:
    write("jobs.py", JOB + "alone = Pipeline('alone', from_collection([1]).sink_to(CollectSink()))\n")
    assert windrow("run", "jobs.py")[:2] == (0, "1\n")
    assert windrow("run", "jobs.py", "--", "--date", "2026-01-31").code == 0
    done = windrow("run", "jobs.py:alone", "--", "--date", "2026-01-31")
    assert (done.code, "only a function that returns a pipeline has parameters" in done.err) == (2, True)


def test_other_subcommands_take_what_follows_as_their_own(windrow: Command, write: Write, tmp_path: Path) -> None:
    write("there", "")
    assert windrow("new", "--", "-project").code == 0
    assert (tmp_path / "-project" / "sensors.py").is_file()

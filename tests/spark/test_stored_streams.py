"""Streams that were exchanged between two runs of a checkpoint, and keys of another type, are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from windrow import DataStream, OutputTag, Pipeline, WatermarkStrategy, from_source
from windrow import aggregates as agg
from windrow.errors import IncompatibleStateError, InvalidArgumentError
from windrow.functions import KeyedProcessFunction, KeySelector, ProcessFunction
from windrow.patterns import Pattern
from windrow.sinks import CollectSink
from windrow.sources import ParquetFileSource
from windrow.windows import TumblingEventTimeWindows
from windrow_runtime.operators.topology import Topology
from windrow_runtime.spark import SparkRunner
from windrow_spark.checkpoint.code_mark import Mark, mark_of
from windrow_spark.checkpoint.folder import Checkpoint
from windrow_spark.checkpoint.stored_plan import Parallelism, resume
from windrow_spark.physical.plan import PhysicalPlan

# Any in this module: streams of every type.

SECOND = timedelta(seconds=1)
SESSION = Parallelism(None, None, 3)
HIDDEN = "hunter2hunter2"


class Click(NamedTuple):
    user: str
    page: str
    at: int
    cost: int


def read(path: str, name: str | None = None, at: Callable[[Click], int] = lambda click: click.at) -> DataStream[Click]:
    in_order = WatermarkStrategy[Click].for_monotonous_timestamps()
    source = from_source(ParquetFileSource(f"/in/{path}", Click), name=name)
    return source.assign_timestamps_and_watermarks(in_order, timestamp=at)


def windows(stream: DataStream[Any], key: Any = None, function: Any = None, name: str | None = None) -> DataStream[Any]:
    stage: Any = stream.key_by(key or (lambda click: click.user), str).window(TumblingEventTimeWindows.of(SECOND))
    built: DataStream[Any] = stage.aggregate(function or agg.count(), name=name)
    return built


def plan(*streams: DataStream[Any]) -> Topology:
    return Topology(Pipeline("plan", *(stream.sink_to(CollectSink()) for stream in streams)).steps)


def of_function(function: Any) -> Topology:
    return plan(windows(read("a"), function=function))


def run(folder: Path, topology: Topology, accepted: Sequence[str] = ()) -> None:
    """Goes on with a checkpoint, or begins it."""
    resume(Checkpoint.at(folder), PhysicalPlan(topology), "event time", SESSION, accepted=accepted)


def changeable(topology: Topology) -> list[str]:
    """The steps whose changes a user may accept."""
    return [step.id for step in (*topology.sources, *topology.keyed, *topology.timestamps)]


def union(first: str, second: str, names: tuple[str | None, str | None] = (None, None)) -> Topology:
    return plan(windows(read(first, names[0]).union(read(second, names[1]))))


def joined(
    left: str,
    right: str,
    *,
    sides: tuple[Any, Any] = (None, None),
    how: str = "join",
    then: Callable[[Any, Any], Any] = lambda a, b: (a, b),
) -> Topology:
    stage: Any = getattr(read(left), how)(read(right))
    first, second = (side or (lambda click: click.user) for side in sides)
    return plan(stage.where(first).equal_to(second).window(TumblingEventTimeWindows.of(SECOND)).apply(then))


def near(lower: int, upper: int) -> Topology:
    left, right = (read(path).key_by(lambda click: click.user, str) for path in ("left", "right"))
    stage: Any = left.interval_join(right).between(lower * SECOND, upper * SECOND)
    return plan(stage.apply(lambda a, b: (a, b)))


def nearest(how: str, retention: int | None = None) -> Topology:
    left, right = (read(path).key_by(lambda click: click.user, str) for path in ("left", "right"))
    stage = getattr(left, how)(right)
    stage = stage if retention is None else stage.retention(retention * SECOND)
    return plan(stage.apply(lambda a, b: (a, b)))


def distinct(selector: Any, **options: Any) -> Topology:
    return plan(read("a").key_by(lambda click: click.user, str).distinct(selector, within=SECOND, **options))


def opaque(attribute: str) -> Any:
    if attribute == "user":
        return lambda click: f"{click.user}"
    return lambda click: f"{click.page}"


class ByField(KeySelector[Click, str]):
    def __init__(self, field: str) -> None:
        self.field = field

    def get_key(self, value: Click) -> str:
        return str(getattr(value, self.field))


EVEN, ODD = OutputTag("even", Click), OutputTag("odd", Click)


class Divide(ProcessFunction[Click, Click]):
    def process_element(self, value: Click, context: Any) -> tuple[Click, ...]:
        context.output(ODD if value.at % 2 else EVEN, value)
        return ()


def tapped(first: OutputTag[Click], second: OutputTag[Click]) -> Topology:
    divided = read("a").process(Divide())
    return plan(*(windows(divided.get_side_output(tag)) for tag in (first, second)))


def filtered(*conditions: Callable[[Click], bool]) -> Topology:
    clicks = read("a")
    return plan(*(windows(clicks.filter(condition)) for condition in conditions))


def piped(*conditions: Callable[[Click], bool], name: str | None = None) -> Topology:
    """One function that is used many times; its windows have a name or none."""

    def counted(clicks: DataStream[Click], condition: Callable[[Click], bool]) -> DataStream[Any]:
        return windows(clicks.filter(condition), name=name)

    return plan(*(read("a").pipe(counted, condition) for condition in conditions))


def scoped(*names: str) -> Topology:
    clicks = read("a")
    return plan(*(clicks.apply_transform(windows, name=name) for name in names))


def free(click: Click) -> bool:
    return click.cost == 0


def dear(click: Click) -> bool:
    return click.cost > 100


def cents(click: Click) -> int:
    return click.cost


def stamps(click: Click) -> int:
    return click.at * 1000


def found(least: int, condition: Any = free) -> Topology:
    """A plan that looks for some clicks and a dear one."""
    pattern = Pattern[Click].begin("some", condition).times_or_more(least).followed_by("dear", dear)
    matches = read("a").key_by(lambda c: c.user, str).pattern(pattern.within(timedelta(seconds=1)))
    return plan(matches.apply(lambda match: len(match["some"])))


# Windows by a key, before and now.
KEYS: dict[str, tuple[Any, Any, str]] = {
    "a key of another field": (None, lambda click: click.page, r"\.user and is \.page"),
    "a key of two fields in another order": (
        lambda click: (click.user, click.page),
        lambda click: (click.page, click.user),
        r"\(\.user, \.page\) and is \(\.page, \.user\)",
    ),
    "an opaque key of another field": (opaque("user"), opaque("page"), "lambda and is another one"),
    "a key by another constant": (
        lambda click: click.user + "a",
        lambda click: click.user + "b",
        r"\.user \+ 'a' and is \.user \+ 'b'",
    ),
    "a selector that is an object": (ByField("user"), ByField("page"), "ByField and is another one"),
}
COST: Any = agg.sum(lambda c: c.cost)
AT: Any = agg.sum(lambda c: c.at)
# Windows with a function, before and now.
FUNCTIONS: dict[str, tuple[Any, Any, str]] = {
    "sums in another order": (
        agg.combine(COST, AT),
        agg.combine(AT, COST),
        r"aggregate 1 takes was \.cost and is \.at.*what aggregate 2 takes was \.at and is \.cost",
    ),
    "a count of values": (agg.count(), agg.count(lambda c: c.page), r"aggregate 1 takes was the element and is \.page"),
    "another order of the best": (
        agg.max_by(lambda c: c.cost),
        agg.max_by(lambda c: c.at),
        r"aggregate 1 takes by 'by' was \.cost and is \.at",
    ),
}
REFUSED: dict[str, tuple[Topology, Topology, str]] = {
    **{
        case: (plan(windows(read("a"), first)), plan(windows(read("a"), second)), f"the key was {told}")
        for case, (first, second, told) in KEYS.items()
    },
    **{
        case: (of_function(first), of_function(second), f"what {told}")
        for case, (first, second, told) in FUNCTIONS.items()
    },
    "two sources of one kind": (union("web", "app"), union("app", "web"), "what it reads was that of plan"),
    "a source that takes the place of another": (union("v1", "v2"), union("v2", "v3"), "what it reads was that of"),
    "sources with names": (
        union("web", "app", ("web", "app")),
        union("x", "y", ("app", "web")),
        "the source in its place was 'web' and is 'app'",
    ),
    "the sides of a join": (joined("a", "b"), joined("b", "a"), "what it reads was that of plan"),
    "the keys of the sides": (
        joined("a", "b", sides=(None, lambda click: click.page)),
        joined("c", "d", sides=(lambda click: click.page, None)),
        r"the key of the left was \.user and is \.page",
    ),
    "a left join": (joined("a", "b"), joined("a", "b", how="left_join"), "the join was join and is left_join"),
    "a right join": (joined("a", "b"), joined("a", "b", how="right_join"), "the join was join and is right_join"),
    "bounds": (near(-1, 1), near(-1, 2), "the bounds was -1000 to 1000 ms and is -1000 to 2000 ms"),
    "a rolling sum of something else": (
        plan(read("a").key_by(lambda c: c.user, str).max(lambda c: c.at)),
        plan(read("a").key_by(lambda c: c.user, str).max(lambda c: c.cost)),
        r"what it takes was \.at and is \.cost",
    ),
    "what repeats": (
        distinct(lambda c: c.at),
        distinct(lambda c: c.cost, on_error="drop"),
        r"what it compares was \.at and is \.cost",
    ),
    "what repeats as a whole": (distinct(None), distinct(lambda c: c.at), r"compares was the element and is \.at"),
    "what changes": (
        plan(read("a").key_by(lambda c: c.user, str).on_change(lambda c: c.at)),
        plan(read("a").key_by(lambda c: c.user, str).on_change(lambda c: c.cost)),
        r"what it compares was \.at and is \.cost",
    ),
    "the last row before, or none": (
        nearest("as_of_join"),
        nearest("left_as_of_join"),
        "the join was inner and is left outer",
    ),
    "another number of elements in a pattern": (
        found(1),
        found(2),
        r"the pattern was begin\(some\)\.one_or_more\(\).* and is begin\(some\)\.times_or_more\(2\)",
    ),
    "side outputs": (tapped(EVEN, ODD), tapped(ODD, EVEN), "the input was source 1 side output 'even'"),
    "branches": (filtered(free, dear), filtered(dear, free), "the functions upstream was that of plan"),
    "uses of one function": (piped(free, dear), piped(dear, free), "the functions upstream was that of plan"),
    "uses of one function whose step has a name": (
        piped(free, dear, name="count"),
        piped(dear, free, name="count"),
        r"the functions upstream was that of plan\.\d+\.counted#2/count",
    ),
    "another source in front of a step": (
        plan(windows(read("a")), read("b")),
        plan(read("a"), windows(read("b"))),
        "the input was source 1 and is source 2",
    ),
    "timestamps": (
        plan(windows(read("a").union(read("b", at=stamps)))),
        plan(windows(read("c", at=stamps).union(read("d")))),
        "the timestamps was that of plan",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_exchanged_streams_are_refused_unless_it_is_said_on_purpose(tmp_path: Path, case: str) -> None:
    first, second, told = REFUSED[case]
    run(tmp_path, first)
    with pytest.raises(IncompatibleStateError, match=f"another plan\n.*{told}") as caught:
        run(tmp_path, second)
    assert "test_stored_streams.py:" in str(caught.value.given)
    assert "accept_changes=" in str(caught.value.hint)
    # What is stored stands as it was.
    run(tmp_path, first)
    run(tmp_path, second, accepted=changeable(second))
    # From then on the new plan is the one to compare with.
    run(tmp_path, second)
    with pytest.raises(IncompatibleStateError):
        run(tmp_path, first)


def long_key(c: Click) -> str:
    user = c
    return user.user


ACCEPTED: dict[str, tuple[Topology, Topology]] = {
    "other paths": (union("web", "app"), union("web/v2", "app/v2")),
    "a path of one of two": (union("web", "app"), union("web", "new")),
    "names that are new": (union("web", "app"), union("web", "app", ("web", "app"))),
    "a key that is written otherwise": (plan(windows(read("a"))), plan(windows(read("a"), long_key))),
    "a named function instead of a lambda": (of_function(COST), of_function(agg.sum(cents))),
    "an opaque key in another place": (
        plan(windows(read("a"), lambda click: f"{click.user}")),
        plan(windows(read("a"), opaque("user"))),
    ),
    "another filter in front": (filtered(free, dear), filtered(free, lambda c: c.cost > 10)),
    "another condition in a pattern": (found(2), found(2, dear)),
    "what becomes of pairs": (joined("a", "b"), joined("a", "b", then=lambda a, b: a.cost + b.cost)),
    "scopes with names that change places": (scoped("a", "b"), scoped("b", "a")),
    "another filter in front within a scope": (piped(free, dear), piped(free, lambda c: c.cost > 10)),
    "a retention of versions": (nearest("as_of_join"), nearest("as_of_join", 5)),
    "another retention of versions": (nearest("as_of_join", 5), nearest("as_of_join", 9)),
    "versions that stay for ever": (nearest("as_of_join", 9), nearest("as_of_join")),
    "named steps that change places": (
        plan(windows(read("a").filter(free), name="free"), windows(read("b").filter(dear), name="dear")),
        plan(windows(read("a").filter(dear), name="free"), windows(read("b").filter(free), name="dear")),
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_other_changes_go_on(tmp_path: Path, case: str) -> None:
    for topology in ACCEPTED[case]:
        run(tmp_path, topology)


HELPED = """
def named(value, {local}=3):
    return f"{{value.{attribute}}} {text}"

def key({element}):
    "{doc}"
    {local} = {element}.user.strip()
    return f"{{{local}}}", named({element})
"""


def key_of(**parts: str) -> Mark:
    given = {"local": "x", "attribute": "page", "text": "/", "element": "e", "doc": "A key."} | parts
    space: dict[str, Any] = {"__name__": "program"}
    exec("\n" * int(given.pop("lines", 0)) + HELPED.format(**given), space)
    return mark_of(space["key"])


@pytest.mark.parametrize(
    ("parts", "is_same"),
    [
        ({"lines": "7"}, True),
        ({"local": "y", "element": "click"}, True),
        ({"doc": "Another text."}, True),
        ({"attribute": "cost"}, False),
        ({"text": "-"}, False),
    ],
    ids=str,
)
def test_code_is_told_apart_by_its_names_and_texts(parts: dict[str, str], is_same: bool) -> None:
    before, now = key_of(), key_of(**parts)
    assert not before.recognised
    assert before.is_that_of(now) == is_same


def compiled(body: str, **variables: Any) -> Any:
    """A function, or an object that is called, with its own module."""
    space: dict[str, Any] = {"__name__": "program", "KeySelector": KeySelector, **variables}
    exec(f"class Selector(KeySelector):\n    def get_key(self, value):\n        return {body}\n", space)
    return space["Selector"]()


class Several:
    """Takes a key of several fields."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def __call__(self, click: Click) -> str:
        return "/".join(str(getattr(click, name)) for name in self.fields)

    def of_first(self, click: Click) -> str:
        return f"{getattr(click, self.fields[0])}"


def by_keyword(name: str) -> Any:
    def key(click: Click, *, field: str = name) -> str:
        return f"{getattr(click, field)}"

    return key


def by_table(table: Any) -> Any:
    return lambda click: str(click.user in table and table)


OTHER_CODE: dict[str, tuple[Any, Any]] = {
    "a place": (lambda c: f"{c[0]}", lambda c: f"{c[1]}"),
    "a number": (lambda c: str(len(c.user) % 16), lambda c: str(len(c.user) % 32)),
    "a number of several": (lambda c: str(len(c.user) in (1, 2)), lambda c: str(len(c.user) in (1, 3))),
    "the end of a slice": (lambda c: f"{c.user[1:7]}", lambda c: f"{c.user[1:8]}"),
    "the body of a class": (compiled("str(value.user)"), compiled("str(value.page)")),
    "a variable of the module": (
        compiled("str(getattr(value, FIELD))", FIELD="user"),
        compiled("str(getattr(value, FIELD))", FIELD="page"),
    ),
    "a keyword's default": (by_keyword("user"), by_keyword("page")),
    "an attribute with several": (Several("user"), Several("page")),
    "the object of a method": (Several("user").of_first, Several("page").of_first),
    "a dict": (by_table({"a": "x"}), by_table({"a": "y"})),
    "a set": (by_table({"a", "x"}), by_table({"a", "y"})),
    "a dict of the module": (
        compiled("str(TABLE.get(value.user))", TABLE={"a": ["x"]}),
        compiled("str(TABLE.get(value.user))", TABLE={"a": ["y"]}),
    ),
    "a bound tuple": (partial(lambda n, c: f"{c, n}", ("user",)), partial(lambda n, c: f"{c, n}", ("page",))),
}


@pytest.mark.parametrize("case", OTHER_CODE)
def test_functions_that_are_not_recognised_are_told_apart_by_names_and_values(case: str) -> None:
    before, now = map(mark_of, OTHER_CODE[case])
    assert not before.is_that_of(now)
    assert before.is_that_of(mark_of(OTHER_CODE[case][0]))


def test_the_order_of_dicts_and_sets_is_none_and_they_may_hold_themselves() -> None:
    table: dict[str, object] = {"a": 1, "b": {3, 1, 2}}
    table["itself"] = table
    turned = dict(reversed(table.items()))
    turned["itself"] = turned
    assert mark_of(by_table(table)).is_that_of(mark_of(by_table(turned)))


def test_what_a_function_does_with_the_same_names_and_values_is_not_compared() -> None:
    before, now = mark_of(lambda c: str(len(c.user) + 2)), mark_of(lambda c: str(len(c.user) - 2))
    assert before.is_that_of(now)


def test_what_another_python_recognises_is_compared_by_names() -> None:
    mark = mark_of(lambda click: click.user)
    assert mark == Mark(".user", mark.names, recognised=True)
    assert mark.is_that_of(Mark("lambda", mark.names))
    assert not mark.is_that_of(Mark("lambda", mark_of(lambda click: click.page).names))


def test_a_checkpoint_of_an_older_version_is_compared_from_the_next_run_on(tmp_path: Path) -> None:
    run(tmp_path, union("web", "app"))
    Checkpoint(tmp_path).streams.path.unlink()
    run(tmp_path, union("web", "app"))
    with pytest.raises(IncompatibleStateError, match="what it reads was that of"):
        run(tmp_path, union("app", "web"))


def test_values_of_variables_and_addresses_are_not_stored(tmp_path: Path) -> None:
    token = HIDDEN
    stream = read(f"{HIDDEN}/a")
    keyed = windows(stream, lambda click: click.user + token, agg.max_by(lambda click: click.user + token))
    opaque = windows(stream, lambda click: f"{click.user}{token}")
    run(tmp_path, plan(keyed, opaque))
    for file in tmp_path.rglob("*"):
        assert HIDDEN not in file.read_text()


def test_names_of_no_step_and_changes_without_a_checkpoint_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"names no step(.|\n)*plan\.9\.window"):
        run(tmp_path, union("web", "app"), accepted=["plan.9.window"])
    runner: Any = SparkRunner
    for wrong in ({"accept_changes": ["a"]}, {"accept_changes": "a", "checkpoint": tmp_path}):
        with pytest.raises(InvalidArgumentError, match="accept"):
            runner(object(), **wrong)


class ByPage(NamedTuple):
    page: str


@dataclass(frozen=True)
class Pair:
    page: str
    user: str


Reordered = make_dataclass("Pair", [("user", str), ("page", str)], frozen=True)


MADE_BY: dict[str, Any] = {"size": len, "text": repr}


def size(c: Click) -> Any:
    return MADE_BY["size"](c.page)


def text(c: Click) -> Any:
    return MADE_BY["text"](c.page)


OTHER_KEYS: dict[str, tuple[Any, Any, str]] = {
    "a pair": (lambda c: c.user, lambda c: (c.at, c.user), r"key type was str and is tuple\[int, str\]"),
    "one of a pair": (lambda c: (c.at, c.user), lambda c: c.at, r"key type was tuple\[int, str\] and is int"),
    "a text of a number": (lambda c: c.at, lambda c: str(c.at), "key type was int and is str"),
    "a record": (lambda c: c.page, lambda c: ByPage(c.page), "key type was str and is ByPage"),
    "a fraction": (lambda c: c.at, lambda c: c.at / 2, "key type was int and is float"),
    "fields in another order": (
        lambda c: Pair(c.page, c.user),
        lambda c: Reordered(c.user, c.page),
        r"key type: Pair has its fields in another",
    ),
    "fields of a part in another order": (
        lambda c: (c.at, Pair(c.page, c.user)),
        lambda c: (c.at, Reordered(c.user, c.page)),
        r"key type\[1\]: Pair has",
    ),
    "no type that is known": (text, size, "type of the keys was and is not known"),
    "a type that was not known": (text, lambda c: c.at, "type of the keys was not known, and the key"),
    "a type that is not known": (lambda c: c.at, text, "type of the keys is not known, and the key"),
}


def keyed_steps(key: Any) -> dict[str, DataStream[Any]]:
    clicks = read("a")
    keyed: Any = clicks.key_by(key)
    timed: Any = keyed.interval_join(read("b").key_by(key)).between(-SECOND, SECOND)
    both: Any = clicks.join(read("b")).where(key).equal_to(key).window(TumblingEventTimeWindows.of(SECOND))
    return {
        "windows": keyed.window(TumblingEventTimeWindows.of(SECOND)).aggregate(agg.count()),
        "function": keyed.process(Counted()),
        "rolling": keyed.sum(lambda c: c.cost),
        "interval join": timed.apply(lambda a, b: (a, b)),
        "as-of join": keyed.as_of_join(read("b").key_by(key)).apply(lambda a, b: (a, b)),
        "window join": both.apply(lambda a, b: (a, b)),
    }


class Counted(KeyedProcessFunction[Any, Click, int]):
    def process_element(self, value: Click, context: Any) -> tuple[int, ...]:
        return (1,)


@pytest.mark.parametrize("case", OTHER_KEYS)
def test_keys_of_another_type_are_refused_whatever_is_accepted(tmp_path: Path, case: str) -> None:
    first, second, told = OTHER_KEYS[case]
    streams = keyed_steps(second)
    for number, (name, stream) in enumerate(keyed_steps(first).items()):
        run(tmp_path / str(number), plan(stream))
        changed = plan(streams[name])
        with pytest.raises(IncompatibleStateError, match=told) as caught:
            run(tmp_path / str(number), changed, accepted=changeable(changed))
        assert "accept_changes" not in str(caught.value.hint)
        assert ("key_by(selector, key_type)" in str(caught.value.hint)) == ("known" in case)


def test_a_stream_that_gets_keys_of_a_type_that_is_not_known_is_refused(tmp_path: Path) -> None:
    each: Any = TumblingEventTimeWindows.of(SECOND)
    without, keyed = plan(read("a").window_all(each).aggregate(agg.count())), plan(windows_by(text))
    for number, (first, second) in enumerate([(without, keyed), (keyed, without)]):
        run(tmp_path / str(number), first)
        with pytest.raises(IncompatibleStateError, match=r"key type was (no keys and is not|not known and is no)"):
            run(tmp_path / str(number), second, accepted=[second.keyed[0].id])


def windows_by(key: Any) -> DataStream[Any]:
    return keyed_steps(key)["windows"]


def test_an_annotation_of_the_key_may_come_and_go(tmp_path: Path) -> None:
    derived, stated = plan(windows_by(lambda c: c.user)), plan(windows(read("a"), lambda c: c.user))
    wider: Any = read("a").key_by(lambda c: c.user, str | None).window(TumblingEventTimeWindows.of(SECOND))
    for topology in (derived, stated, derived, plan(wider.aggregate(agg.count()))):
        run(tmp_path, topology)

from __future__ import annotations

import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from itertools import count
from typing import Annotated, Any, Generic, Literal, NewType, NotRequired, TypeVar

import pytest
from typing_extensions import TypedDict

from tests.codecs.samples import Defaults, Event, Everything, Keywords, Options, Point, Reading, Tree
from windrow.errors import InvalidArgumentError
from windrow.panes import Change, ChangeKind
from windrow_runtime.codecs.arrow.decoding import decode_batch
from windrow_runtime.codecs.arrow.encoding import encode_batch
from windrow_runtime.codecs.record_type import record_type
from windrow_runtime.codecs.value_type import Kind, RecordShape

T = TypeVar("T")
U = TypeVar("U")


@dataclass
class Box(Generic[T]):
    content: T


class Pair(typing.NamedTuple, Generic[T]):
    names: list[T]
    last: T | None


class Ints(Box[int]):
    pass


class Wider(Box[U], Generic[U, T]):
    pass


@dataclass
class Labelled(Box[list[U]], Generic[U]):
    label: U | None


Sensor = NewType("Sensor", str)


def test_a_record_has_a_column_for_each_field() -> None:
    kind = record_type(Reading)
    assert [column.name for column in kind.columns] == ["sensor", "at", "celsius"]
    assert not kind.single
    assert kind.root.shape is RecordShape.DATACLASS


@pytest.mark.parametrize(
    ("annotation", "columns"),
    [
        (int, [("value", "int")]),
        (list[str], [("value", "list[str]")]),
        (dict[str, int], [("value", "dict[str, int]")]),
        (tuple[str, int], [("_1", "str"), ("_2", "int")]),
        (tuple[int, ...], [("value", "tuple[int, ...]")]),
        (Reading | None, [("value", "Reading | None")]),
        (tuple[int, str] | None, [("value", "tuple[int, str] | None")]),
        (None, [("value", "None")]),
        (Sensor, [("value", "str")]),
        (Annotated[int, ["unhashable"]], [("value", "int")]),
        (Reading, [("sensor", "str"), ("at", "int"), ("celsius", "float")]),
        (Point, [("x", "int"), ("y", "int")]),
        (Options, [("name", "str"), ("size", "int")]),
        (Event, [("eventId", "int"), ("tagList", "list[str]")]),
        (Pair[int], [("names", "list[int]"), ("last", "int | None")]),
        (Change[Point], [("kind", "ChangeKind"), ("value", "Point")]),
        (Ints, [("content", "int")]),
        (Wider[str, int], [("content", "str")]),
        (Labelled[int], [("content", "list[int]"), ("label", "int | None")]),
        (Box[Box[int]], [("content", "Box")]),
    ],
)
def test_columns(annotation: object, columns: list[tuple[str, str]]) -> None:
    assert [(column.column, str(column.type)) for column in record_type(annotation).columns] == columns


def test_which_fields_a_source_must_have() -> None:
    required = {column.name: column.required for column in record_type(Defaults).columns}
    assert required == {"name": True, "size": False, "tags": False, "note": False, "maybe": False}
    assert [column.required for column in record_type(Options).columns] == [True, False]


def test_keyword_only_records_are_built_by_keyword() -> None:
    assert record_type(Keywords).root.by_keyword
    assert not record_type(Reading).root.by_keyword


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (Change[Pair[int]], [Change(ChangeKind.DELETE, Pair([1], None)), Change(ChangeKind.INSERT, Pair([], 2))]),
        (Box[Box[int]], [Box(Box(1))]),
    ],
    ids=["Change", "Box"],
)
def test_generic_records_have_the_types_that_are_filled_in(annotation: object, values: list[object]) -> None:
    kind = record_type(annotation)
    assert decode_batch(encode_batch(values, kind), kind) == values


def test_answers_are_cached_and_pickle() -> None:
    kind = record_type(Everything)
    assert record_type(Everything) is kind
    copy = pickle.loads(pickle.dumps(kind))
    assert copy == kind
    assert hash(copy) == hash(kind)
    assert copy.root.contains(Kind.DECIMAL)
    defaults = pickle.loads(pickle.dumps(record_type(Defaults))).columns[1].default
    assert defaults is not None
    assert defaults() == 3


@dataclass
class Lazy:
    total: InitVar[int]
    n: int


@dataclass
class Computed:
    n: int
    double: int = field(init=False)


@dataclass
class Unresolved:
    n: Missing  # type: ignore[name-defined]  # noqa: F821 - the very fault


class Ambiguous(TypedDict):
    n: NotRequired[int | None]


@dataclass
class Untyped:
    tags: list[object]


@dataclass
class Nested:
    inner: dict[str, list[Untyped]]


class Celsius(float): ...


@dataclass
class Empty: ...


Half = TypedDict("Half", {"\ud800": int})


@pytest.mark.parametrize(
    ("annotation", "where", "hint"),
    [
        (Any, "Any", r"\.returns\(Type\)"),
        (object, "object", r"\.returns\(Type\)"),
        (list, "list", "list\\[str\\]"),
        (dict, "dict", "dict\\[str, int\\]"),
        (tuple, "tuple", "tuple\\[str, int\\]"),
        (int | str, "int | str", "either-or"),
        (Nested, "Nested.inner{}[].tags[]", r"\.returns"),
        (Tree, "Tree.children[]", "flatten"),
        (Celsius, "Celsius", "come back as float"),
        (Literal["a"], "Literal['a']", "Enum"),
        (Box, "Box.content", "generic record"),
        (Lazy, "Lazy.total", "make it a field"),
        (Computed, "Computed.double", "property"),
        (Unresolved, "Unresolved", "module level"),
        (Ambiguous, "Ambiguous.n", "NotRequired"),
        (Empty, "Empty", "give it a field"),
        (dict[float, int], "{key}", "str keys"),
        (dict[str | None, int], "{key}", "str keys"),
        (set[list[int]], "[]", "use a list"),
        ("Reading", "Reading", "not its name in quotes"),
        (Callable[[], int], "Callable", "supported type"),
        (complex, "complex", "supported type"),
        (typing.NamedTuple("Bare", []), "Bare", "give it a field"),
        (Half, "Half", r"rename the key '\\ud800'"),
    ],
    ids=count(),
)
def test_types_without_columns_are_refused(annotation: object, where: str, hint: str) -> None:
    with pytest.raises(InvalidArgumentError, match=hint) as caught:
        record_type(annotation)
    assert where in str(caught.value.where or caught.value.given)
    assert caught.value.expected


def test_importing_the_codecs_imports_no_engine() -> None:
    program = (
        "import sys, windrow_runtime.codecs.text_files;"
        "import windrow_spark.stable_hash, windrow_spark.spark_schema;"
        "print([name for name in ('pyarrow', 'pyspark', 'numpy', 'msgspec') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"

"""Which pipeline the command line names, and what is said of a file that has none or cannot be imported."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.command.conftest import Command, Write
from tests.command.programs import COUNTS, ONE
from windrow.errors import InvalidArgumentError
from windrow_tools.command.user_file import check_beside


def test_the_only_pipeline_needs_no_name(windrow: Command, write: Write) -> None:
    write("alone.py", ONE)
    assert windrow("run", "alone.py")[:2] == (0, "1\n")
    assert windrow("run", "alone.py:one")[:2] == (0, "1\n")


def test_a_module_is_named_as_python_names_it(windrow: Command, write: Write) -> None:
    write("jobs/__init__.py", "")
    write("jobs/numbers.py", "NUMBERS = [7]\n")
    write("jobs/job.py", "from .numbers import NUMBERS\n" + ONE.replace("[1]", "NUMBERS"))
    assert windrow("run", "jobs.job:one")[:2] == (0, "7\n")
    assert windrow("run", "jobs/job.py")[:2] == (0, "7\n")


def test_a_file_finds_the_modules_beside_it(windrow: Command, write: Write) -> None:
    write("there/beside.py", "NUMBERS = [5]\n")
    write("there/with_beside.py", "from beside import NUMBERS\n" + ONE.replace("[1]", "NUMBERS"))
    assert windrow("run", "there/with_beside.py")[:2] == (0, "5\n")


def test_several_pipelines_are_listed(windrow: Command, write: Write) -> None:
    write("several.py", ONE + dedent("""\
    again = one
    _hidden = Pipeline("hidden", from_collection([2]).sink_to(CollectSink()))
    def annotated() -> Pipeline: return one
    def not_annotated(): return one
    def with_argument(number: int) -> Pipeline: return one
    def with_stream(numbers: object) -> Pipeline: return one
    """))  # fmt: skip
    done = windrow("run", "several.py")
    assert (done.code, done.out) == (2, "")
    assert "the file has several pipelines" in done.err
    assert "expected: several.py:one, several.py:annotated\n" in done.err
    assert windrow("run", "several.py:not_annotated")[:2] == (0, "1\n")
    assert windrow("run", "several.py:_hidden")[:2] == (0, "2\n")
    assert "expected: --number INTEGER\n" in windrow("run", "several.py:with_argument").err
    assert "the function needs arguments" in windrow("run", "several.py:with_stream").err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nothing.py", "there is no such file\n  given:    nothing.py"),
        ("nothing.py:one", "there is no such file\n  given:    nothing.py"),
        ("nothing", "there is no such file or module\n  given:    nothing\n"),
        ("nothing.inner:one", "there is no such file or module\n  given:    nothing.inner\n"),
        (".", "a folder has no pipeline: name a file in it"),
        ("folder", "there is no such file or module\n  given:    folder\n"),
        ("folder", "a folder has no pipeline: name a file in it"),
        ("folder:one", "a folder has no pipeline: name a file in it"),
        ("words.txt", "Python imports no file of this name"),
        ("json.py", "a file has the name of a module of Python's"),
        ("none.py", "the file has no pipeline\n  given:    none.py"),
        ("none.py:", "no pipeline is named after the colon"),
        ("none.py:numbers", "hint:     did you mean number?"),
        ("none.py:a.b", "the file has no such name\n  given:    none.py:a.b\n"),
        ("none.py:a-b", "the file has no such name\n  given:    none.py:a-b\n"),
        ("none:a.b", "the file has no such name\n  given:    none:a.b\n"),
        ("nothing.inner:a.b", "there is no such file or module\n  given:    nothing.inner\n"),
        ("folder/nothing.py:a.b", "there is no such file\n  given:    folder/nothing.py:a.b\n"),
        ("none.py:soon", "the function is asynchronous\n  given:    none.py:soon\n"),
        ("none.py:number", "the name is not that of a pipeline\n  given:    number, 7\n"),
    ],
)
def test_a_name_without_a_pipeline_is_refused(name: str, expected: str, windrow: Command, write: Write) -> None:
    for file in ("none.py", "json.py", "words.txt"):
        write(file, 'number = 7\nasync def soon() -> "Pipeline": ...\n')
    write("folder/other.txt", "")
    done = windrow("explain", name)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert "Traceback" not in done.err


def test_an_error_of_the_file_is_shown_with_its_line_and_without_a_stack(windrow: Command, write: Write) -> None:
    write("helper.py", "def fail():\n    return {}['key']\n")
    builds = ONE.replace("one =", "_one =") + "def p() -> Pipeline:\n    return 1 / 0\n"
    texts = {
        "syntax.py": ("x = 1\ny = = 2\n", "SyntaxError: invalid syntax", "where:    syntax.py:2: y = = 2"),
        "named.py": ("\nx = unknown\n", "name 'unknown' is not defined", "where:    named.py:2: x = unknown"),
        "inner.py": ("import helper\nhelper.fail()\n", "given:    KeyError: 'key'", "where:    helper.py:2: return {}"),
        "absent.py": ("import no_such\n", "No module named 'no_such'", "where:    absent.py:1: import no_such"),
        "exits.py": ("import sys\nsys.exit(3)\n", "sys.exit(3)", "hint:     put what the file does as a program below"),
        "builds.py": (builds, "p() raised", "builds.py:5: return 1 / 0"),
        "plan.py": (ONE + "p = Pipeline('')\n", "a pipeline needs a name", "plan.py:4"),
    }
    for name, (text, *expected) in texts.items():
        write(name, text)
        done = windrow("explain", name)
        assert done.code == 2, name
        assert [part for part in expected if part not in done.err] == [], done.err
        assert "Traceback" not in done.err
    assert "Traceback" in windrow("explain", "named.py", "--verbose").err


def test_functions_annotated_by_a_text_are_found(windrow: Command, write: Write) -> None:
    write("postponed.py", "from __future__ import annotations\n" + COUNTS)
    beginning = "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport windrow\n"
    for_types = "if TYPE_CHECKING:\n    from collections.abc import Iterable\n"
    made = "def made(lines: Iterable[str] = ()) -> windrow.Pipeline: return one\n"
    write("checked.py", beginning + for_types + ONE + made)
    assert windrow("explain", "postponed.py").code == 0
    assert "checked.py:one, checked.py:made" in windrow("explain", "checked.py").err


def test_a_file_that_hides_a_module_of_python_from_workers_is_refused(windrow: Command, write: Write) -> None:
    write("jobs/counting_beside.py", COUNTS)
    for harmless in ("jobs/os.py", "jobs/sys.py", "jobs/lib2to3.py", "jobs/csv/data.txt"):
        write(harmless, "")
    assert windrow("run", "jobs/counting_beside.py")[:2] == (0, "1\n1\n1\n")
    check_beside()
    write("jobs/random.py", "")
    done = windrow("run", "jobs/counting_beside.py", "--engine", "spark")
    assert (done.code, done.out) == (2, "")
    assert "hides a module of Python's from the workers of Spark\n  given:    jobs/random.py\n" in done.err
    (write("json/__init__.py", "").parents[1] / "jobs/random.py").unlink()
    with pytest.raises(InvalidArgumentError, match=r"\n  given:    json/__init__.py\n"):
        check_beside()

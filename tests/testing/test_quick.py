"""``make quick`` chooses the tests that reach a change, the nearest ones first, until the time is up."""

from __future__ import annotations

import time

import pytest

from tests import quick

LOCK = "windrow_runtime.outputs.process_lock"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runtime/windrow_runtime/outputs/process_lock.py", LOCK),
        ("dsl/windrow/triggers/__init__.py", "windrow.triggers"),
        ("tests/quick.py", "tests.quick"),
        ("docs/pictures.py", "docs.pictures"),
        ("docs/sinks.md", None),
        ("Makefile", None),
    ],
)
def test_files_are_modules_by_their_import_names(path: str, name: str | None) -> None:
    assert quick.module_of(path) == name
    if name is not None and not path.startswith("docs/"):
        assert quick.modules()[name] == quick.ROOT / path


def test_imports_are_seen_within_functions_and_of_names_in_modules() -> None:
    assert {"tests.quick"} == quick.imports_of("tests.testing.test_quick")
    assert "windrow_sql.database.output" in quick.imports_of("windrow_sql.database.writer")


def test_entry_points_are_imports() -> None:
    assert "tests.local.test_stopping" in quick.tests_of(["windrow_runtime.connectors.collections.reader"])


def test_tests_come_in_the_order_of_their_distance() -> None:
    tests = quick.tests_of([LOCK, "tests.dsl.test_validation", "no.such.module"])
    imports = [LOCK in quick.imports_of(name) for name in tests]
    assert tests[0] == "tests.dsl.test_validation"  # it was changed itself
    assert imports[1:] == sorted(imports[1:], reverse=True)
    in_room = [any(each.startswith("windrow_runtime.outputs.") for each in quick.imports_of(name)) for name in tests]
    assert in_room[1:] == sorted(in_room[1:], reverse=True)
    assert "tests.outputs.test_process_lock" in tests[1:4]
    assert "tests.spark.test_runner_sinks" in tests  # by other modules
    assert "tests.dsl.test_arguments" not in tests


def test_what_nobody_imports_has_no_tests() -> None:
    assert quick.tests_of(["tests.versions.nothing"]) == []


def test_no_test_begins_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    budget = quick.Budget()
    for seconds in (60, -1):
        monkeypatch.setenv("WINDROW_QUICK_DEADLINE", str(time.time() + seconds))
        if seconds > 0:
            budget.pytest_runtest_setup(request.node)
            continue
        with pytest.raises(pytest.skip.Exception, match="the time is up"):
            budget.pytest_runtest_setup(request.node)


def test_no_file_begins_when_the_time_is_up() -> None:
    tests = quick._Tests(["tests/no_such_file.py"], time.time() - 1)
    tests.run()
    assert (tests.begun, tests.passed) == (0, True)


def test_a_file_that_fails_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    tests = quick._Tests(["tests/no_such_file.py", *["tests/quick.py"] * 20], time.time() + 60)
    tests.run()
    assert (tests.begun, tests.passed) == (8, False)
    assert "FAILED no_such_file.py and 7 more" in capsys.readouterr().out

"""The page on which a browser runs the interpreter, in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from docs.playground import FOLDER, PROGRAMS, fetch_pyodide, write_own_files
from tests.browser.chromium import served
from tests.dsl.test_derived_types import CHECKED

ROOT = Path(__file__).parents[2]
# Python's start takes half a minute on a busy machine; so long may a program take that is stopped.
SECOND = 1_000
START = 120 * SECOND
RUN = 30 * SECOND


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the page's part that is not text, and its files as a build of the pages has them."""
    try:
        fetch_pyodide()
    except OSError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("pages")
    static = folder / "_static" / "try"
    shutil.copytree(FOLDER, static)
    write_own_files(static)
    block = re.search(r"^```\{raw\} html\n(.*?)^```", (ROOT / "docs" / "try.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    (folder / "try.html").write_text(f"<!doctype html><meta charset=utf-8><body>{block[1]}</body>")
    with served(folder) as server:
        yield f"{server}/try.html"


@pytest.fixture(scope="module")
def page(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    expect(page.locator("#try-status")).to_have_text(re.compile("Ran in"), timeout=START)
    yield page
    assert errors == []
    page.close()


def test_the_first_program_runs_by_itself_and_is_drawn(page: Page) -> None:
    values = page.locator("#try-output .try-values").first.inner_text().splitlines()
    assert values[0] == "Reading(sensor='roof', second=4, celsius=3.1)"
    assert "Reading(sensor='roof', second=3, celsius=1.0)" in values  # what the late reading made of its window
    assert page.locator("#try-output figure svg").count() == 1
    expect(page.locator("#try-output figcaption")).to_have_text("coldest.4.window")


@pytest.mark.parametrize("name", sorted(file.name for file in PROGRAMS.glob("*.py")))
def test_each_program_of_the_list_runs(page: Page, name: str) -> None:
    program = (PROGRAMS / name).read_text()
    titles = page.locator("#try-choice option").all_inner_texts()
    page.evaluate("window.marked = document.getElementById('try-output').firstChild")
    for title in titles:
        page.select_option("#try-choice", title)
        if page.input_value("#try-code") == program:
            break
    else:
        pytest.fail(f"the list has no {name}")
    page.wait_for_function("() => document.getElementById('try-status').textContent.startsWith('Ran in')", timeout=RUN)
    assert page.locator("#try-output .try-error").count() == 0
    assert page.locator("#try-output figure svg").count() >= 1
    assert page.locator("#try-output .try-values").first.inner_text() != "(nothing)"


def run_program(page: Page, program: str) -> None:
    page.evaluate("document.getElementById('try-output').replaceChildren()")
    page.fill("#try-code", program)
    page.wait_for_function("() => document.getElementById('try-output').childElementCount > 0", timeout=RUN)


def test_an_edit_runs_without_a_click(page: Page) -> None:
    program = (PROGRAMS / "late_elements.py").read_text()
    run_program(page, program.replace("a.celsius <= b.celsius", "a.celsius >= b.celsius"))
    assert (
        page.locator("#try-output .try-values")
        .first.inner_text()
        .startswith("Reading(sensor='roof', second=1, celsius=3.5)")
    )


def test_a_fault_of_the_plan_is_shown_with_its_line(page: Page) -> None:
    program = (PROGRAMS / "late_elements.py").read_text()
    run_program(
        page,
        program.replace("    .allowed_lateness(timedelta(seconds=10))", "    .allowed_lateness(timedelta(seconds=-1))"),
    )
    text = page.locator("#try-output pre.try-error").inner_text()
    assert "InvalidArgumentError" in text
    assert "given:" in text


def test_an_error_of_the_program_begins_at_the_program(page: Page) -> None:
    run_program(page, "print('so far')\n1 / 0\n")
    text = page.locator("#try-output pre.try-error").inner_text()
    assert 'File "program.py", line 2' in text
    assert text.endswith("ZeroDivisionError: division by zero")
    assert text.count("File ") == 1
    assert page.locator("#try-output pre.try-printed").inner_text().strip() == "so far"


def test_texts_of_elements_are_no_html(page: Page) -> None:
    program = (PROGRAMS / "sessions.py").read_text()
    attack = "<img src=x onerror=document.title='attacked'>"
    run_program(page, program.replace('"ann"', repr(attack)))
    assert page.locator("#try-output img").count() == 0
    assert page.title() != "attacked"


@pytest.mark.thorough(reason="the test below in test_try.py stops a program, and another one runs then")
def test_a_program_without_end_can_be_stopped(page: Page) -> None:
    page.fill("#try-code", "while True:\n    pass\n")
    expect(page.locator("#try-status")).to_have_text("Running …", timeout=RUN)
    page.fill("#try-code", (PROGRAMS / "sessions.py").read_text())
    page.click("#try-stop")
    expect(page.locator("#try-status")).to_have_text(re.compile("Ran in"), timeout=START)
    assert "Session(" in page.locator("#try-output .try-values").first.inner_text()


def test_a_program_that_was_stopped_does_not_begin_again(page: Page) -> None:
    endless = "while True:\n    pass\n"
    page.fill("#try-code", endless)
    expect(page.locator("#try-status")).to_have_text("Running …", timeout=RUN)
    page.click("#try-stop")
    expect(page.locator("#try-status")).to_have_text(re.compile("Python is ready"), timeout=START)
    assert page.locator("#try-stop").is_disabled()
    run_program(page, "print('so far')\n")


def test_python_is_loaded_anew_behind_a_program_that_breaks_it(page: Page) -> None:
    run_program(page, "import json\njson.dumps = None\n")
    assert "TypeError" in page.locator("#try-output pre.try-error").inner_text()
    expect(page.locator("#try-status")).to_have_text(re.compile("Python is ready"), timeout=START)
    run_program(page, "print('it runs')\n")
    assert page.locator("#try-output pre.try-printed").inner_text().strip() == "it runs"


def test_pages_without_pyodide_say_how_to_get_it_and_nothing_is_red(browser: Browser, tmp_path: Path) -> None:
    static = tmp_path / "_static" / "try"
    shutil.copytree(FOLDER, static, ignore=shutil.ignore_patterns("pyodide"))
    write_own_files(static)
    block = (ROOT / "docs" / "try.md").read_text().split("```{raw} html\n")[1].split("```")[0]
    (tmp_path / "try.html").write_text(f"<!doctype html><meta charset=utf-8><body>{block}</body>")
    with served(tmp_path) as server:
        bare = browser.new_page()
        errors: list[str] = []
        bare.on("console", lambda message: errors.append(message.location["url"]) if message.type == "error" else None)
        bare.on("pageerror", lambda error: errors.append(str(error)))
        bare.goto(f"{server}/try.html")
        expect(bare.locator("#try-output pre")).to_have_text("python -m docs.playground\nmake docs")
        assert bare.locator(".try-error").count() == 0
        bare.locator("#try-choice").select_option("Sessions")
        assert "EventTimeSessionWindows" in bare.locator("#try-code").input_value()
        assert [error for error in errors if not error.endswith("/favicon.ico")] == []
        bare.close()


MSGSPEC = """\
# msgspec is no part of Pyodide: as much of it as the module of rows needs.
import sys, types
stand_in = types.ModuleType("msgspec")
stand_in.Struct = type("Struct", (), {"__init_subclass__": classmethod(lambda cls, **given: None)})
stand_in.StructMeta = type("StructMeta", (type,), {})
sys.modules["msgspec"] = stand_in
"""
DERIVED = """
import math
from datetime import UTC
from decimal import Decimal
from types import NoneType

from windrow import Pipeline
from windrow.sinks import CollectSink

names = {**globals()}
rows = from_collection([], Row)
wrong = []
for text, kind in CHECKED:
    expected = NoneType if kind == "None" else eval(kind, names)
    if rows.map(eval("lambda r: " + text, names)).element_type != expected:
        wrong.append(text)
print(sys.version_info[:2] >= (3, 14), len(CHECKED), wrong)
pipeline = Pipeline("empty", from_collection([1]).sink_to(CollectSink()))
"""


def test_types_are_derived_on_the_newest_python_as_on_this_one(page: Page) -> None:
    """The derivation reads instructions, which each version of Python changes; Pyodide's is newer than most."""
    rows = (ROOT / "tests" / "dsl" / "typed_rows.py").read_text().replace("from __future__ import annotations\n", "")
    parts = ["from __future__ import annotations", MSGSPEC, "from windrow import from_collection", rows]
    run_program(page, "\n".join([*parts, f"CHECKED = {CHECKED!r}", DERIVED]))
    assert page.locator("#try-output pre.try-printed").inner_text().strip() == f"True {len(CHECKED)} []"

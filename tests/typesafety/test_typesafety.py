"""What mypy --strict infers and refuses, word for word, and what pyright does in strict mode, by its rules.

The cases are programs under ``cases``. Each message that mypy gives for a line stands in comments below that line,
``# error: ...`` or ``# note: ...``, and the rules by which pyright refuses the line in ``# rule: ...``. Both must say
this and no more. The accepted programs state the inferred types by ``assert_type``; they also run, so that the plan
accepts what the type checkers do.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "cases").glob("*.py.txt"))
ACCEPTED = [case for case in CASES if case.name.startswith("accepted_")]
EXPECTED = re.compile(r"\s*# (error|note|rule): (.*)")
FOUND = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?::\d+)?: (?P<severity>error|note): (?P<message>.*)")

Messages = dict[int, list[str]]


def name_of(case: Path) -> str:
    return case.name.removesuffix(".py.txt")


def expected_messages(text: str, *severities: str) -> Messages:
    """The messages in the comments of a case, by the line that they stand below; of some severities, or of all."""
    messages: defaultdict[int, list[str]] = defaultdict(list)
    code = 0
    for number, line in enumerate(text.splitlines(), start=1):
        match = EXPECTED.fullmatch(line)
        if match is None:
            code = number
        elif not severities or match[1] in severities:
            messages[code].append(f"{match[1]}: {match[2]}")
    return dict(messages)


def expected_rules(text: str) -> dict[int, set[str]]:
    """The rules of pyright in the comments of a case."""
    return {
        line: {rule for each in messages for rule in each.removeprefix("rule: ").split(", ")}
        for line, messages in expected_messages(text, "rule").items()
    }


def found_messages(output: str) -> dict[str, Messages]:
    """What mypy said, by the name of the case and by line."""
    found: defaultdict[str, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in output.splitlines():
        match = FOUND.fullmatch(line)
        assert match is not None, f"not a message of mypy: {line}"
        found[Path(match["file"]).stem][int(match["line"])].append(f"{match['severity']}: {match['message']}")
    return {name: dict(messages) for name, messages in found.items()}


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, set[str]]]:
    """The rules by which pyright refuses lines of all cases, from one run with the repository's settings."""
    folder = tmp_path_factory.mktemp("rules")
    for case in CASES:
        (folder / f"{name_of(case)}.py").write_text(case.read_text())
    settings = {
        **tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"],
        "include": ["."],
        "extraPaths": [str(ROOT / "dsl"), str(ROOT / "runtime")],
        "venvPath": str(ROOT),
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(Path(sys.executable).with_name("basedpyright")), "--project", str(folder), "--outputjson"]
    done = subprocess.run([*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False)
    found: dict[str, dict[int, set[str]]] = {name_of(case): {} for case in CASES}
    for diagnostic in json.loads(done.stdout)["generalDiagnostics"]:
        if diagnostic["severity"] == "error":
            lines = found[Path(diagnostic["file"]).stem]
            line: int = diagnostic["range"]["start"]["line"] + 1
            lines.setdefault(line, set()).add(diagnostic.get("rule", "syntax"))
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Messages]:
    """The messages for all cases, from one run of mypy with the repository's settings."""
    folder = tmp_path_factory.mktemp("cases")
    files = [folder / f"{name_of(case)}.py" for case in CASES]
    for case, file in zip(CASES, files, strict=True):
        file.write_text(case.read_text())
    settings = ["--config-file", str(ROOT / "mypy.ini"), "--no-error-summary", "--no-pretty"]
    output, trouble, _ = api.run([*settings, *map(str, files)])
    assert trouble == ""
    return found_messages(output)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_mypy_says_this_and_nothing_else(case: Path, found: dict[str, Messages]) -> None:
    assert found.get(name_of(case), {}) == expected_messages(case.read_text(), "error", "note")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_pyright_refuses_this_and_nothing_else(case: Path, rules: dict[str, dict[int, set[str]]]) -> None:
    assert rules[name_of(case)] == expected_rules(case.read_text())


@pytest.mark.parametrize("case", ACCEPTED, ids=name_of)
def test_what_mypy_accepts_the_plan_accepts(case: Path) -> None:
    assert expected_messages(case.read_text()) == {}
    runpy.run_path(str(case))


UNTYPED = {
    "a sink in a variable without the type of its elements": re.compile(r"\w = CollectSink\(\)"),
    "a harness that takes elements of every type": re.compile(r"StreamHarness\([^,]*\)( as |:?$)", re.MULTILINE),
    "an aggregate in a variable without the type of its elements": re.compile(
        r"^(?:>>> )?\w+ = agg\.\w+\(lambda [^)]*\)$", re.MULTILINE
    ),
    "a missing timestamp that becomes 1970": re.compile(r"timestamp or 0\b(?!`)"),
}


@pytest.mark.parametrize("what", UNTYPED)
def test_pages_and_examples_show_calls_that_type_checkers_check(what: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    assert len(pages) > 20
    assert [page for page in pages if UNTYPED[what].search(page.read_text())] == []


def test_refused_programs_are_refused() -> None:
    """A case named ``refused_`` without a message would prove nothing."""
    refused = [case for case in CASES if case not in ACCEPTED]
    assert refused
    for case in refused:
        assert case.name.startswith("refused_")
        assert expected_messages(case.read_text())


def test_a_message_belongs_to_the_line_of_code_above_it() -> None:
    text = "a = 1\nb: str = a\n# error: one\n    # note: two\nc = 2\n"
    assert expected_messages(text) == {2: ["error: one", "note: two"]}

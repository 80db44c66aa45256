"""The table of a run in a terminal, and in a notebook."""

from __future__ import annotations

import io
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.view.recorded import RecordedRun, clicks_pipeline, history_of, report_of
from windrow.errors import EngineError, UnsupportedOperationError
from windrow_runtime.view import RunHistory, watch
from windrow_tools.view.terminal import rendered
from windrow_tools.view.texts import cells, html_of, size_text, spark_line


def history_of_batches(batches: int) -> RunHistory:
    return history_of(*({"late": batch} for batch in range(batches)))


def text_of(history: RunHistory, width: int = 120) -> list[str]:
    console = Console(record=True, file=io.StringIO(), width=width)
    console.print(rendered(history.snapshot(), width))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_terminal_shows_the_figures_and_each_step() -> None:
    assert text_of(history_of_batches(4))[:7] == [
        "clicks running, batch 3",
        "rows a second 500 rows 4,000 time of a batch 1.1 s watermark 2026-02-24 09:01:30 UTC behind 5 d 2 h late 18",
        "malformed 2 dropped 0",
        "rows a second █▄▄▄",
        "time of a batch ▆▇▇█",
        "step in out late malformed dropped windows timers state lag",
        "1 source 1,000 1,000 0 2 0",
    ]


def test_a_step_has_a_row() -> None:
    row = text_of(history_of_batches(4), width=140)[-6]
    assert row == "4 window <b>a minute</b> & [red]more[/red] 1,000 100 6 0 0 43 80 135.0 kB 5 d 2 h"


def test_a_narrow_terminal_has_fewer_columns() -> None:
    lines = text_of(history_of_batches(2), width=60)
    assert "step in out late lag" in lines
    assert "8 window sessions 1,000 100 1 5 d 2 h" in lines


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_500_000, "2.5 MB"), (7 * 10**9, "7.0 GB")]
)
def test_sizes_have_a_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_a_failure_is_shown() -> None:
    history = history_of_batches(1)
    history.end(EngineError("Spark gave up", given="[bold]a[/bold] lost executor"))
    lines = text_of(history)
    assert lines[0] == "clicks failed, batch 0"
    assert "Spark gave up" in lines
    assert any("[bold]a[/bold] lost executor" in line for line in lines)


def test_what_users_wrote_is_no_command_of_the_terminal() -> None:
    pipeline = clicks_pipeline()
    # The language refuses such names; what another engine hands in is no command either.
    object.__setattr__(pipeline, "name", "\x1b[2Jclicks")
    step = next(step for step in pipeline.steps if step.node.kind == "window")
    object.__setattr__(step.node, "name", "\x1b]0;minutes\x07")
    history = RunHistory(pipeline)
    history.add(report_of(pipeline, 0))
    history.end(EngineError("Spark gave up", given="\x1b[8mno executor"))
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as capture:
        console.print(rendered(history.snapshot(), 120))
    shown = capture.get()
    assert "\x1b" not in shown
    assert "�[2Jclicks" in shown
    assert "�]0;minutes" in shown
    assert "�[8mno executor" in shown


def test_before_the_first_batch_there_is_one_line() -> None:
    assert text_of(history_of_batches(0)) == ["clicks no batch is done yet"]


@pytest.mark.parametrize(
    ("values", "line"), [([], ""), ([0.0, 0.0], "▁▁"), ([0.0, 1.0, 2.0], "▁▅█"), ([1.0] * 50, "█" * 40)]
)
def test_a_line_of_bars(values: list[float], line: str) -> None:
    assert spark_line(values) == line


def test_figures_that_are_not_known_are_left_empty() -> None:
    source = history_of_batches(1).snapshot().steps[0]
    assert cells(source) == ["1 source", "1,000", "1,000", "0", "0", "0", "", "", "", ""]


def test_a_notebook_escapes_what_users_wrote() -> None:
    history = history_of_batches(1)
    history.end(EngineError("<script>alert(1)</script>"))
    html = html_of(history.snapshot())
    ElementTree.fromstring(f"<div>{html}</div>")
    assert "<script>" not in html
    assert "4 window &lt;b&gt;a minute&lt;/b&gt;" in html
    assert html.startswith("<p><b>clicks</b> failed, batch 0</p>")


def test_what_is_no_terminal_shows_nothing_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    run = RecordedRun(clicks_pipeline())
    run.report(0)
    run.end()
    watch(run)
    assert capsys.readouterr() == ("", "")


def test_a_failure_is_raised() -> None:
    run = RecordedRun(clicks_pipeline())
    run.end(EngineError("Spark gave up"))
    with pytest.raises(EngineError, match="Spark gave up"):
        watch(run)


def test_without_rich_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(UnsupportedOperationError, match=r"pip install .*\[view\]'"):
        watch(RecordedRun(clicks_pipeline()))


class _Kernel:
    kernel = object()


def test_a_cell_of_a_notebook_follows_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display", reason="needs IPython")
    import threading

    import IPython

    shown: list[str] = []
    has_ended = threading.Event()

    class Handle:
        # Any: what IPython displays.
        def update(self, html: Any) -> None:
            shown.append(html.data)
            if "ended" in html.data:
                has_ended.set()

    # Any: what IPython displays.
    def show(html: Any, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(html.data)
        return Handle()

    monkeypatch.setattr(IPython, "get_ipython", _Kernel)
    monkeypatch.setattr(display, "display", show)
    run = RecordedRun(clicks_pipeline())
    watch(run)
    run.report(0)
    run.end()
    assert has_ended.wait(60)
    assert shown[0] == "<p><b>clicks</b> no batch is done yet</p>"
    assert "ended, batch 0" in shown[-1]

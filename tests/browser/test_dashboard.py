"""The page about a run, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.view.recorded import WINDOW, RecordedRun, clicks_pipeline
from windrow.errors import EngineError
from windrow.time import lag_text
from windrow_runtime.view import Dashboard, dashboard

PATIENCE = 30_000


@pytest.fixture
def run() -> RecordedRun:
    run = RecordedRun(clicks_pipeline())
    for batch in range(40):
        run.report(batch, rows=1_000 + batch * 377 % 900, late=3 if batch == 7 else 0)
    run.dropped = {WINDOW: {"late_records_dropped": 9}}
    return run


@pytest.fixture
def served(run: RecordedRun) -> Iterator[Dashboard]:
    with dashboard(run) as served:
        yield served


@pytest.fixture
def page(browser: Browser, served: Dashboard) -> Iterator[Page]:
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("request", lambda request: faults.append(request.url) if not request.url.startswith(served.url) else None)
    page.goto(served.url)
    expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE)
    yield page
    assert [fault for fault in faults if not fault.startswith("data:")] == []
    page.close()


def tile(page: Page, name: str) -> str:
    return page.locator(".tile", has=page.get_by_text(name, exact=True)).locator(".value").inner_text()


def test_it_shows_the_figures_the_charts_and_the_steps(page: Page) -> None:
    assert page.locator("h1").inner_text() == "clicks"
    assert page.title() == "clicks: running"
    assert (tile(page, "Time of a batch"), tile(page, "Watermark behind")) == ("1.2 s", "5 d 2 h")
    assert (tile(page, "Late"), tile(page, "Malformed"), tile(page, "Dropped")) == ("9", "20", "9")
    for chart in ("rows", "time", "lag"):
        path = page.locator(f"#chart-{chart} path.line").get_attribute("d")
        assert path is not None
        assert len(re.findall("[ML]", path)) == 40
    assert page.locator("#steps tr").count() == 7
    assert page.locator("#windows figure").count() == 3
    assert page.locator("#windows figure").first.locator("rect.window").count() == 2


def test_what_users_wrote_is_text(page: Page) -> None:
    row = page.locator("#steps tr").nth(1)
    assert row.locator("td").first.inner_text() == "4 window <b>a minute</b> & [red]more[/red]\non columns"
    assert page.locator("b").count() == 0


def test_it_shows_the_plan_as_a_picture(page: Page) -> None:
    width = page.locator(".plan img").evaluate("image => image.complete && image.naturalWidth")
    assert width > 200


def test_it_follows_the_run_and_says_that_it_has_ended(run: RecordedRun, page: Page) -> None:
    run.report(40, ended=True)
    expect(page.locator("#batch")).to_have_text(re.compile("batch 40"), timeout=PATIENCE)
    expect(page.get_by_text("the stream is at its end")).to_be_visible()
    expect(page.locator("#windows-card")).to_be_hidden()
    run.end()
    expect(page.locator("#state")).to_have_text("ended", timeout=PATIENCE)


def test_it_says_why_the_run_has_failed(run: RecordedRun, page: Page) -> None:
    run.end(EngineError("Spark gave up", given="<img src=x onerror=alert(1)>"))
    expect(page.locator("#state")).to_have_text("failed", timeout=PATIENCE)
    expect(page.locator("#error")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img").count() == 1  # the plan


def test_it_says_that_nobody_watches_any_more(browser: Browser, run: RecordedRun) -> None:
    page = browser.new_page()
    with dashboard(run) as served:
        page.goto(served.url)
        expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE)
    expect(page.locator("#state")).to_have_text("not watched any more", timeout=PATIENCE)
    page.close()


def test_it_keeps_the_end_that_ended_the_program(browser: Browser, run: RecordedRun) -> None:
    page = browser.new_page()
    with dashboard(run) as served:
        page.goto(served.url)
        expect(page.locator("#state")).to_have_text("running", timeout=PATIENCE)
        run.end(EngineError("Spark gave up"))
    expect(page.locator("#error")).to_contain_text("Spark gave up", timeout=PATIENCE)
    expect(page.locator("#state")).to_have_text("failed")
    page.close()


def test_a_chart_tells_the_batch_under_the_pointer(page: Page) -> None:
    chart = page.locator("#chart-time svg")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 3, box["y"] + 60)
    expect(chart.locator("text").last).to_have_text("800 ms, batch 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_it_fits_the_screen(browser: Browser, served: Dashboard, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]  # one of two
    page = context.new_page()
    page.goto(served.url)
    expect(page.locator("#steps tr")).to_have_count(7, timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # Neither text nor figures are of the colour behind them.
    ground, ink = page.evaluate("['background-color', 'color'].map(n => getComputedStyle(document.body)[n])")
    light, dark = (ground, ink) if scheme == "light" else (ink, ground)
    assert [sum(map(int, re.findall(r"\d+", colour)[:3])) // 200 for colour in (light, dark)] == [3, 0]
    context.close()


def test_durations_are_written_as_windrow_writes_them(page: Page) -> None:
    lags = [0, 1, 999, 1_000, 1_049, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 442_800_000, 10**13, -1, -61_000]
    assert page.evaluate("lags => lags.map(duration)", lags) == [lag_text(lag) for lag in lags]

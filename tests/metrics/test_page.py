"""The page about monitoring lists the metrics of the code, and the files beside it use no others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.metrics.prometheus import SERIES
from windrow_runtime.metrics.instruments import ALL, Instrument

DOCS = Path(__file__).parents[2] / "docs"
RULES = DOCS / "monitoring" / "windrow-rules.yml"
DASHBOARD = DOCS / "monitoring" / "windrow-dashboard.json"
CASES = Path(__file__).parent / "rules-test.yml"

NAMES = re.compile(r"\bwindrow_\w+")


def row(metric: Instrument) -> str:
    attributes = ", ".join(f"`{name}`" for name in metric.attributes)
    return f"| `{metric.name}` | {metric.kind.value} | `{metric.unit}` | {attributes} | {metric.description} |"


def test_the_page_lists_every_metric() -> None:
    page = (DOCS / "monitoring.md").read_text()
    table = page[page.index("<!-- metrics") : page.index("<!-- end of metrics")]
    assert [line for line in table.splitlines() if line.startswith("| `")] == [*map(row, ALL)]


# Any: JSON.
def expressions(content: Any) -> list[str]:
    if isinstance(content, dict):
        return [text for key, value in content.items() for text in ([value] if key == "expr" else expressions(value))]
    return [text for each in content for text in expressions(each)] if isinstance(content, list) else []


def test_rules_and_dashboard_use_metrics_that_there_are() -> None:
    for texts in ([RULES.read_text()], expressions(json.loads(DASHBOARD.read_text()))):
        names = {name for text in texts for name in NAMES.findall(text)}
        assert len(names) > 5
        assert names - SERIES == set()


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for text in expressions(json.loads(DASHBOARD.read_text())) for name in NAMES.findall(text)}
    roots = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SERIES - shown}
    assert {root for root in roots if not any(name.startswith(root) for name in shown)} == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (apt-get install prometheus)")
def test_rules_fire_when_they_should_and_stay_quiet_otherwise() -> None:
    for arguments in (("check", "rules", str(RULES)), ("test", "rules", str(CASES))):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    cases = CASES.read_text()
    fired = set(re.findall(r"alertname: (\w+)\n +exp_alerts", cases))
    quiet = set(re.findall(r"eval_time: 50m, alertname: (\w+)}", cases))
    assert fired == quiet == set(re.findall(r"- alert: (\w+)", RULES.read_text()))

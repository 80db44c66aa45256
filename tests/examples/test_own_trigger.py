"""The first trigger of one's own in the documentation is short."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "triggers.md"


def test_a_trigger_takes_twenty_lines() -> None:
    section = PAGE.read_text().partition("(triggers-own)=")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    lines = [line for line in code.splitlines() if line.strip()]
    assert any(line.startswith("class ") and "(Trigger[" in line for line in lines)
    assert len(lines) <= 20

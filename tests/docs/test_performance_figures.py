"""The figures of the pages on performance stand in the tables of ``benchmarks/README.md``."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("performance.md", "measured.md"))
MEASURED = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
CONTENDERS = ("native Spark SQL, tuned", "windrow, declared", "windrow, Python functions")

# A number with a comma or a point, a range, and one with a unit; those of settings and of machines have none of these.
FIGURE = re.compile(
    r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+\.\d+|\d+(?= to \d+ \|)|\d+(?= (?:ms|MiB|µs)\b))(?![\w,]|\.\d)"
)


def told() -> str:
    """What the pages say in words and tables: without blocks of code, code within lines, and versions of programs."""
    text = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]+`", "", " ".join(text.split()))
    return re.sub(r"\b(Python|PySpark|pyarrow) \d+(\.\d+)+", "", text)


def rows_of(text: str, *head: str) -> list[list[str]]:
    """Returns the cells of the table whose first titles these are; an empty first cell is that of the row above."""
    lines = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]
    (begin,) = (place for place, cells in enumerate(lines) if tuple(cells[: len(head)]) == head)
    found: list[list[str]] = []
    for cells in lines[begin + 2 :]:
        if len(cells) != len(lines[begin]):
            break
        found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


def measured_on_spark() -> dict[tuple[str, str, str], tuple[str, str]]:
    """Rows a second, and times those of tuned Spark, by workload, rows of a batch and contender."""
    figures: dict[tuple[str, str, str], tuple[str, str]] = {}
    size = ""
    for workload, rows, contender, per_second, _, ratio, *_ in rows_of(
        MEASURED, "workload", "rows per batch", "contender", "rows/s", "slowest..fastest"
    ):
        size = rows or size
        figures[workload, size, contender] = per_second, ratio
    return figures


def test_each_figure_was_measured() -> None:
    figures = FIGURE.findall(told())
    assert len(figures) > 150
    missing = [each for each in figures if not re.search(rf"(?<![\d.,]){re.escape(each)}(?![\d,]|\.\d)", MEASURED)]
    assert missing == []


def test_contenders_have_the_figures_of_their_workloads() -> None:
    measured = measured_on_spark()
    rows = rows_of(PAGE, "Windows", "keys")
    assert len(rows) == 14
    for windows, keys, *cells in rows:
        ours = [measured.get((f"{windows}, {keys} sensors", "250,000", each), ("-", "-")) for each in CONTENDERS]
        (tuned, _), declared, python = ours
        assert [tuned, *declared, *python] == cells, windows


def test_rows_a_second_grow_with_the_batch_as_measured() -> None:
    measured = measured_on_spark()
    rows = rows_of(PAGE, "rows a batch")
    assert len(rows) == 4
    for size, declared, python, tuned in rows:
        small = ", small batches of Parquet" if size == "2,000" else ""
        workload = f"tumbling mean, 5 s{small}, 1,000 sensors"
        assert [tuned, declared, python] == [measured[workload, size, each][0] for each in CONTENDERS]


def test_topics_are_as_measured() -> None:
    measured = {name: cells for name, *cells in rows_of(MEASURED, "contender", "1 M, s")}
    topics = rows_of(PAGE, "Contender", "records/s")
    assert len(topics) == 3
    for name, *cells in topics:
        of_this = measured[name.removesuffix(", by its connector")]
        assert cells == [of_this[2], of_this[4]]


def test_latency_is_as_measured() -> None:
    (measured,) = re.findall(r"half of the results\s+took (.*?)\.\n", MEASURED, re.DOTALL)
    half, half_native, _, most, most_native, half_python, most_python = re.findall(r"[\d,]*\d", measured)
    assert {name: cells for name, *cells in rows_of(PAGE, "Contender", "half of the results within")} == {
        "windrow, declared": [f"{half} ms", f"{most} ms"],
        "windrow, Python functions": [f"{half_python} ms", f"{most_python} ms"],
        "native Spark SQL, tuned": [f"{half_native} ms", f"{most_native} ms"],
    }


def test_workers_and_state_are_as_measured() -> None:
    measured = {
        (form, keys): (state, worker)
        for form, _, keys, state, worker, *_ in rows_of(MEASURED, "form", "touched", "keys", "state MiB", "worker MiB")
    }
    rows = rows_of(PAGE, "Keys stored")
    assert len(rows) == 2
    for keys, *cells in rows:
        columns, process = measured["columns", keys], measured["process", keys]
        assert cells == [f"{each} MiB" for each in (columns[1], process[1], columns[0], process[0])]


def test_columns_and_objects_are_as_measured() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    rows = rows_of(page, "declared program", "keys")
    assert rows == rows_of(MEASURED, "declared program", "keys")
    for _, _, columns, objects, times in rows:
        ratio = int(columns.replace(",", "")) / int(objects.replace(",", ""))
        assert times == (f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}")

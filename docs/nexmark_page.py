"""What the pages about Nexmark show of the queries: their figures, their code with the imports folded, and their plans.

``nexmark-table`` is the table of what was measured; ``nexmark-code`` shows a module; ``nexmark-query`` shows one with
its figures, and with the plan that ``explain()`` gives for Spark.
"""

from __future__ import annotations

import ast
import importlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docs.charts import nexmark

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NEXMARK: Final = Path(__file__).parents[1] / "benchmarks" / "nexmark"
COLUMNS: Final = {
    "windrow/s": "events a second",
    "x native": "times tuned Spark SQL",
    "x Flink": "times Flink SQL",
    "time": "measured",
}
"""The columns of the table, and what the page calls them."""


def divided(source: str) -> tuple[str, str]:
    """Returns the imports at the beginning of a module, and what follows; its docstring is in neither."""
    body = ast.parse(source).body[1:]
    last = max(node.end_lineno or 0 for node in body if isinstance(node, (ast.Import, ast.ImportFrom)))
    begin = body[0].lineno - 1
    lines = source.splitlines()
    return "\n".join(lines[begin:last]), "\n".join(lines[last:]).strip("\n")


def words(name: str) -> tuple[str, str]:
    """Returns the title of a query, and what it computes: the docstring of its module."""
    docstring = ast.get_docstring(ast.parse((NEXMARK / "queries" / f"{name}.py").read_text(encoding="utf-8"))) or ""
    title, _, computed = docstring.partition("\n")[0].partition(": ")
    return title, computed[:1].upper() + computed[1:]


def page_of(name: str) -> str:
    """Returns the name of the page that shows a query."""
    pages = sorted((Path(__file__).parent / "nexmark").glob("*.md"))
    return next(page.stem for page in pages if f"{{nexmark-query}} {name}\n" in page.read_text(encoding="utf-8"))


def plan(name: str) -> str:
    """Returns the plan of a query on Spark, over a folder named ``data``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.nexmark.streams import Streams
    from windrow_runtime.spark import SparkRunner

    query = importlib.import_module(f"benchmarks.nexmark.queries.{name}").query
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        (data / "side_input").mkdir(parents=True)
        (data / "manifest.json").write_text(json.dumps({"disorder_ms": 2000}), encoding="utf-8")
        pq.write_table(pa.table({"key": [0], "value": ["0"]}), data / "side_input" / "0.parquet")
        text: str = query(Streams(data), Path(folder) / "results").explain(SparkRunner())
    return text.replace(f"{folder}/", "")


def code(text: str, language: str, kind: str) -> nodes.literal_block:
    block = nodes.literal_block(text, text, language=language)
    block["classes"].append(kind)
    return block


def folded(summary: str, *content: nodes.Node) -> Iterator[nodes.Node]:
    """Yields content that a click unfolds."""
    yield nodes.raw("", f"<details><summary>{summary}</summary>", format="html")
    yield from content
    yield nodes.raw("", "</details>", format="html")


def row(cells: Sequence[nodes.Node | str]) -> nodes.row:
    made = nodes.row()
    for cell in cells:
        content = nodes.paragraph("", "", nodes.Text(cell) if isinstance(cell, str) else cell)
        made += nodes.entry("", content)
    return made


class NexmarkTable(SphinxDirective):
    """The figures of all queries, each with a link to its code."""

    def run(self) -> list[nodes.Node]:
        names = ["query", *COLUMNS.values()]
        group = nodes.tgroup("", cols=len(names))
        group += [nodes.colspec("", colwidth=1) for _ in names]
        group += nodes.thead("", row(names))
        body = nodes.tbody()
        for name, measured in nexmark().items():
            heading = f"{name}: {words(name)[0].lower()}"
            address = f"nexmark/{page_of(name)}.html#{nodes.make_id(heading)}"
            link = nodes.reference("", heading, refuri=address, internal=True)
            body += row([link, *(measured[column] for column in COLUMNS)])
        group += body
        return [nodes.table("", group)]


class NexmarkCode(SphinxDirective):
    """The code of a module beside the queries."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        file = NEXMARK / f"{self.arguments[0]}.py"
        self.env.note_dependency(str(file))
        imports, rest = divided(file.read_text(encoding="utf-8"))
        return [*folded("Imports", code(imports, "python", "source")), code(rest, "python", "source")]


class NexmarkQuery(SphinxDirective):
    """What a query computes, how fast, its code and its plan."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        file = NEXMARK / "queries" / f"{name}.py"
        self.env.note_dependency(str(file))
        imports, rest = divided(file.read_text(encoding="utf-8"))
        text = f"{words(name)[1]} {figures(name)}"
        return [
            nodes.paragraph("", text),
            code(rest, "python", "source"),
            *folded("Imports", code(imports, "python", "source")),
            *folded("Plan on Spark", code(plan(name), "text", "printed")),
        ]


def figures(name: str) -> str:
    """Returns a sentence with what was measured of a query."""
    measured = nexmark()[name]
    sentence = f"{measured['windrow/s']} events a second"
    others = [f"{measured[column]} {COLUMNS[column]}" for column in ("x native", "x Flink") if measured[column] != "-"]
    return f"{sentence}: {', '.join(others)}." if others else f"{sentence}; neither of the others can state it."


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the directives to Sphinx."""
    app.add_directive("nexmark-table", NexmarkTable)
    app.add_directive("nexmark-code", NexmarkCode)
    app.add_directive("nexmark-query", NexmarkQuery)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""What the reference adds to the entries of autodoc: each class begins with a table of its members.

It stands before a paragraph of the class ``elsewhere``, which names the members on another page.

Of a function with many overloads, an entry shows the first two signatures and the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from docutils import nodes
from sphinx import addnodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FEWEST: Final = 3
"""A class with fewer members than this is read without a table."""

SIGNATURES: Final = 3
"""How many signatures an entry shows."""


def add_tables(app: Sphinx, doctree: nodes.document) -> None:
    """Begin the entry of each class with a table of its members, and leave out overloads that add nothing."""
    for entry in [*doctree.findall(addnodes.desc)]:
        signatures = [child for child in entry.children if isinstance(child, addnodes.desc_signature)]
        for signature in signatures[SIGNATURES - 1 : -1]:
            entry.remove(signature)
        members = [child for child in _content(entry).children if isinstance(child, addnodes.desc)]
        if entry.get("objtype") == "class" and len(members) >= FEWEST:
            content = _content(entry)
            others = [child for child in content.children if "elsewhere" in child.get("classes", ())]
            content.insert(content.index([*others, *members][0]), table([row(member) for member in members]))


def row(member: addnodes.desc) -> tuple[nodes.Node, list[nodes.Node]]:
    """Returns a link to a member, and what the first sentence of its docstring says."""
    signature = next(child for child in member.children if isinstance(child, addnodes.desc_signature))
    name = str(signature["fullname"]).rpartition(".")[2]
    link = nodes.reference("", "", nodes.literal(text=name), internal=True, refid=signature["ids"][0])
    summary = next((child for child in _content(member).children if isinstance(child, nodes.paragraph)), None)
    return link, [] if summary is None else first_sentence(summary)


def first_sentence(paragraph: nodes.paragraph) -> list[nodes.Node]:
    """Returns the beginning of a paragraph, to the end of its first sentence."""
    sentence: list[nodes.Node] = []
    for child in paragraph.children:
        text, end, _ = child.astext().partition(". ") if isinstance(child, nodes.Text) else ("", "", "")
        if end:
            return [*sentence, nodes.Text(f"{text}.")]
        sentence.append(child.deepcopy())
    return sentence


def table(rows: list[tuple[nodes.Node, list[nodes.Node]]]) -> nodes.table:
    """Returns a table of two columns without a head."""
    body = nodes.tbody()
    for link, sentence in rows:
        cells = [nodes.entry("", nodes.paragraph("", "", *content)) for content in ([link], sentence)]
        body += nodes.row("", *cells)
    group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (1, 3)), body, cols=2)
    return nodes.table("", group, classes=["members"])


def _content(entry: addnodes.desc) -> nodes.Element:
    return next(child for child in entry.children if isinstance(child, addnodes.desc_content))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the tables to Sphinx."""
    app.connect("doctree-read", add_tables)
    return {"parallel_read_safe": True}

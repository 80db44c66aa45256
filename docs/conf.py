"""How Sphinx builds these pages: offline, and with every warning an error."""

from __future__ import annotations

import importlib
import inspect
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from docutils import nodes

from windrow.distribution import DISTRIBUTION

if TYPE_CHECKING:
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

# For docs/pictures.py, and for the examples that it draws.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs import inventories

project = "windrow"
author = "The windrow developers"
project_copyright = "The windrow developers"
release = installed_version(DISTRIBUTION)
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docs.members",
    "docs.nexmark_page",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
# The calls of large classes that a page of their own explains, by the class: the page, and the names.
_MORE_CALLS = (
    "union connect broadcast with_side_input join left_join right_join full_join co_group map_batches map_async "
    "apply_transform pipe"
)
_CALLS_BY_KEY = (
    "process reduce sum min max min_by max_by distinct first on_change stateful_map stateful_flat_map "
    "group_into_batches latest"
)
autosummary_context = {
    "elsewhere": {
        "windrow.DataStream": ("streams", _MORE_CALLS.split()),
        "windrow.KeyedStream": ("keyed", _CALLS_BY_KEY.split()),
    }
}
# Nobody reads a list of all names: the reference has tables, and a search.
html_use_index = False
html_domain_indices = False
# What assistants ask a site for, at the root of the pages.
html_extra_path = ["llms.txt"]

nitpicky = True
# A build must not need the network: the inventories of these two are made here, and there are none of the others.
intersphinx_mapping = inventories.write(Path(__file__).parent / "_build" / "inventories")
nitpick_ignore_regex = [
    (r"py:.*", r"(typing_extensions|pandas|polars|pyarrow)\..*"),
    # The beginning of a type with a comma, in a list of attributes.
    (r"py:class", r"collections\.abc\.Mapping\[str"),
    # The classes of declared aggregates and of triggers: what the public functions give, and nobody else makes.
    (r"py:class", r"windrow\.triggers\.composable\.(combinations|conditions|repeating)\..*"),
    (r"py:class", r"windrow\.joins\.declared_join\..*"),
    (r"py:class", r"windrow\.aggregates\.(arithmetic|arrival|combined|distinct|facts|order|sketches)\..*"),
]

# Named in signatures of public names, but not public: made by the builder, or a protocol for what Spark has.
nitpick_ignore = [
    ("py:class", "windrow.panes.settings.PaneSettings"),
    ("py:class", "windrow.windows.spec.WindowSpec"),
    ("py:class", "windrow.functions.marked.JoinKind"),
    ("py:class", "windrow.builder.interval_join._Bounds"),
    ("py:class", "windrow.patterns.parts.Part"),
    ("py:class", "windrow.patterns.selecting.MatchFunction"),
    ("py:class", "windrow.side_inputs.views.SideView"),
    ("py:class", "windrow.builder.window_join.TwoStreams"),
    ("py:class", "windrow.builder.window_join._Settings"),
    ("py:class", "windrow.rolling.Comparable"),
    ("py:class", "windrow.sources.SparkDataFrame"),
    ("py:class", "windrow.builder.window_settings.WindowSettings"),
    # What type checkers alone see: a stream that is wide enough, functions that return one value, or another key.
    ("py:class", "windrow.builder.stream._Wider"),
    ("py:class", "NoOtherKey"),
    ("py:class", "windrow.builder.connect.NoOtherKey"),
    ("py:class", "windrow.plan.emitting.NotRecords"),
    ("py:class", "NotRecords"),
    ("py:class", "OneValue"),
    ("py:class", "windrow_runtime.operators.windows.merging.Merged"),
    ("py:class", "windrow_spark.run.query.Query"),
    # Imported for type checkers only, so that signatures give their bare names.
    ("py:class", "Query"),
    ("py:class", "CheckpointLock"),
    ("py:class", "OnProgress"),
    ("py:class", "Vs"),  # the types of several views
    ("py:class", "timedelta"),
    # Of the package openlineage-python, whose pages have no inventory.
    ("py:class", "OpenLineageClient"),
]

# A build runs no notebook: it shows the outputs that `python -m docs.notebooks` has stored.
nb_execution_mode = "off"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {
    "members": True,
    # Everything that a class has, but what these bring along.
    "inherited-members": "tuple, Enum, Exception, BaseException, Generic, Protocol, object",
}
napoleon_numpy_docstring = False
# Attributes of a docstring as a list; as entries of their own they would repeat those of the fields.
napoleon_use_ivar = True

# Beside a page, methods stand below their class: its name before each would not fit there.
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"windrow {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]

# What is copied is what a reader would type: without prompts, and without what is printed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"

# The modules whose every public name must be in the reference.
PUBLIC_MODULES = [
    "windrow",
    "windrow.aggregates",
    "windrow.connectors",
    "windrow.errors",
    "windrow.evictors",
    "windrow.formats",
    "windrow.functions",
    "windrow.joins",
    "windrow.kafka",
    "windrow.panes",
    "windrow.plan",
    "windrow.sinks",
    "windrow.sources",
    "windrow.state",
    "windrow.time",
    "windrow.triggers",
    "windrow.watermarks",
    "windrow.windows",
    "windrow_runtime.local",
    "windrow_runtime.pictures",
    "windrow_runtime.replay",
    "windrow_runtime.lineage",
    "windrow_runtime.spark",
    "windrow_runtime.testing",
]


def public_names() -> dict[str, str]:
    """The documented name of every public object, by the name that a signature may give it.

    Signatures name a class by the module that defines it, or by its bare name where its import is for type checkers
    only. The reference documents it under the package that exports it.
    """
    names: dict[str, str] = {}
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            target = getattr(module, name)
            documented = f"{module_name}.{name}"
            defined = getattr(target, "__module__", None)
            names.setdefault(name, documented)
            names.setdefault(f"{defined}.{name}", documented)
    return names


def is_type_variable(module_name: str | None, name: str) -> bool:
    """Whether a signature names a type variable, which has no entry of its own."""
    short = name.rpartition(".")[2]
    for candidate in (name.rpartition(".")[0], module_name):
        try:
            found = getattr(importlib.import_module(candidate), short, None) if candidate else None
        except ImportError:
            continue
        if isinstance(found, TypeVar):
            return True
    return False


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: object) -> object | None:
    """Find what a signature names by another name than that of its entry."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    documented = public_names().get(target)
    if documented is not None and documented != target:
        python = env.domains["py"]
        for kind in ("class", "obj"):
            found: object | None = python.resolve_xref(
                env, node["refdoc"], app.builder, kind, documented, node, content
            )
            if found is not None:
                return found
    owner = node.get("py:module")
    modules = [owner, *submodules(owner)] if owner else []
    return content if any(is_type_variable(module, target) for module in modules) else None


def submodules(package: str) -> list[str]:
    """The modules that define what a package exports."""
    exported = importlib.import_module(package)
    names = getattr(exported, "__all__", ())  # a module of windrow's own lists none
    defined = {getattr(getattr(exported, name), "__module__", None) for name in names}
    bases = {
        base.__module__ for name in names if inspect.isclass(found := getattr(exported, name)) for base in found.__mro__
    }
    return sorted(name for name in defined | bases if name is not None and name.startswith("windrow"))


def check_reference(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of public names without an entry; a warning is an error here."""
    from sphinx.util import logging

    entries = {name for name, *_ in env.domains["py"].get_objects()}
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            # What two packages export has its entry in one of them, which has an alias for where it is defined.
            defined = f"{getattr(getattr(module, name), '__module__', None)}.{name}"
            if not {f"{module_name}.{name}", defined} & entries:
                logging.getLogger(__name__).warning("%s.%s is not in the reference", module_name, name)


def hide_constructor(
    app: Sphinx, what: str, name: str, target: object, options: object, signature: str, returns: str
) -> tuple[str, str] | None:
    """Leave out the signature of a class that nobody makes by hand: of a plan, or without a word of its arguments."""
    from docs.parameters import named_by_class

    if not signature or not isinstance(target, type):
        return None
    return ("", returns) if name.startswith("windrow.plan.") or not named_by_class(target) else None


def draw_pictures(app: Sphinx) -> None:
    """Run what the pages show, and draw it; a picture that raises ends the build."""
    from docs import pictures

    pictures.draw_all()


def write_playground(app: Sphinx) -> None:
    """Write windrow as a zip, and programs, for the page on which a browser runs them."""
    from docs import playground

    playground.write_own_files()


def hide_tuple_field(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out the fields of named tuples: their class says what they are, and Python gives them a number alone."""
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None


def mark_texts(app: Sphinx, doctree: nodes.document) -> None:
    """Mark the cells of tables that hold a text, for the style sheet."""
    for cell in doctree.findall(nodes.entry):
        if len(cell.astext()) > 40:
            cell["classes"].append("text")


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("builder-inited", draw_pictures)
    app.connect("builder-inited", write_playground)
    app.connect("autodoc-skip-member", hide_tuple_field)
    app.connect("doctree-read", mark_texts)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("missing-reference", resolve)
    app.connect("env-check-consistency", check_reference)

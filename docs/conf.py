"""How Sphinx builds these pages: offline, and with every warning an error."""

from importlib.metadata import version as installed_version

project = "windrow"
author = "The windrow developers"
project_copyright = "The windrow developers"
release = installed_version("windrow")
version = ".".join(release.split(".")[:2])

# No intersphinx: a build must not need the network.
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

nitpicky = True
# Without intersphinx there is nothing that names outside of windrow could point to.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(collections|contextlib|datetime|enum|os|pathlib|types|typing|typing_extensions|pandas|pyarrow|pyspark)\..*",
    ),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"windrow {release}"

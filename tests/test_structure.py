"""How the packages are built: which modules import which."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from windrow import distribution

ROOT = Path(__file__).parents[1]
RUNTIME = ROOT / "runtime"
PACKAGES = {"windrow": ROOT / "dsl" / "windrow"} | {name: RUNTIME / name for name in distribution.PACKAGES[1:]}


def modules() -> dict[str, Path]:
    """The file of each module of all packages, by the module's name."""
    found: dict[str, Path] = {}
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def tree_of(file: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(file.read_text())


def imported(file: Path, known: Mapping[str, Path], *, for_types: bool = False) -> Iterator[str]:
    """The modules of all packages that a module imports when it runs, inside functions too; or also ``for_types``."""
    nodes: list[ast.AST] = [tree_of(file)]
    while nodes:
        node = nodes.pop()
        is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if isinstance(node, ast.If) and is_for_types and not for_types:
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in known:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)


def import_graph(*, for_types: bool) -> dict[str, set[str]]:
    """The modules that each module imports.

    The calls of a stream give stages, and the calls of stages give streams: the builder is one thing. So it does not
    count that its stages name the stream.
    """
    known = modules()
    graph = {module: {*imported(file, known, for_types=for_types)} - {module} for module, file in known.items()}
    for module, others in graph.items():
        if module.startswith("windrow.builder."):
            others.discard("windrow.builder.stream")
    return graph


def circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in imports[module]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            circle = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(circle) > 1:
                found.append(set(circle))

    for module in imports:
        if module not in order:
            visit(module)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == [{"a", "b", "c"}]


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(import_graph(for_types=False)) == []


def test_at_most_three_modules_name_the_types_of_each_other() -> None:
    """What more modules need lies in a module below them."""
    assert [sorted(circle) for circle in circles(import_graph(for_types=True)) if len(circle) > 3] == []


MOST_MODULES, MOST_LINES_TO_RUN = 230, 39_960
"""What the interpreter may need: the modules that it imports, also inside functions, and their lines."""


def test_the_interpreter_needs_few_modules(capsys: pytest.CaptureFixture[str]) -> None:
    """What a sink or a source alone needs, such as Arrow, is behind an entry point; users' doors are for users."""
    known, graph = modules(), import_graph(for_types=False)
    needed, waiting = set[str](), ["windrow_runtime.local"]
    while waiting:
        module = waiting.pop()
        if module not in needed:
            needed.add(module)
            waiting += graph[module]
    lines = sum(len(known[module].read_text().splitlines()) for module in needed)
    with capsys.disabled():
        print(f"\ninterpreter: {lines:,} lines in {len(needed)} modules")
    assert "windrow" not in needed
    assert len(needed) <= MOST_MODULES
    assert lines <= MOST_LINES_TO_RUN


def test_tests_of_columns_import_nothing_of_the_spark_engine() -> None:
    known = modules()
    files = (ROOT / "tests" / "columnar").glob("*.py")
    engine = re.compile(r"windrow_spark\.(?!columnar|physical|storage)")
    assert [(file.name, name) for file in files for name in imported(file, known) if engine.match(name)] == []


def test_rooms_are_small() -> None:
    """A folder with more modules than a reader can keep in mind holds two things."""
    sizes = {folder: len([*folder.glob("*.py")]) for package in PACKAGES.values() for folder in folders(package)}
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > 20} == {}


def folders(package: Path) -> list[Path]:
    """The folders of a package that hold modules."""
    return sorted({file.parent for file in package.rglob("*.py")})


def test_the_pages_name_the_folders_that_exist() -> None:
    there = {str(folder.relative_to(ROOT)) for package in PACKAGES.values() for folder in folders(package)}
    architecture = set(re.findall(r"`((?:dsl|runtime)/[\w/]+)`", (ROOT / "docs" / "architecture.md").read_text()))
    assert architecture == there


def test_contributing_names_what_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`(\w+/[\w/.]*\w)`", page))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


READS_CODE = re.compile(
    r"dis|CodeType|__code__|__closure__|cell_contents|co_(code|consts|names|varnames|flags|freevars)"
)
"""Names by which a module looks at the code of functions; ``co_filename`` of a frame is none."""

SENDS_CODE = "windrow_runtime.local.parcel"
"""Pickles functions; a code object among what they hold stays the same."""


def names_in(tree: ast.AST) -> Iterator[str]:
    """The names that a module imports, or uses."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def test_one_room_reads_the_code_of_functions() -> None:
    readers = {module for module, file in modules().items() if any(map(READS_CODE.fullmatch, names_in(tree_of(file))))}
    assert readers
    assert sorted(module for module in readers if not module.startswith(("windrow.facts", SENDS_CODE))) == []


PUBLIC_IN_SPARK = re.compile(r"pyspark(\.errors|\.sql(\.(types|functions|datasource|streaming(\.\w+)?))?)?")
"""The modules of PySpark whose names without an underscore are public: their pages in Spark's reference."""

PRIVATE = {"_jconf", "_jdf", "_jsc", "_jsparkSession", "_jsq", "_jvm", "_plan", "_sc"}
"""Attributes of PySpark's objects, which are found whatever windrow calls its own."""

PYTHONS = {
    *("_asdict", "_exit", "_field_defaults", "_fields", "_is_protocol", "_make", "_missing_", "_name_", "_replace"),
    "_value_",
}
"""Names with an underscore that Python gave, to parts of named tuples, enums and modules."""


def own_names(tree: ast.AST) -> Iterator[str]:
    """The names that a module defines or assigns; those of attributes only where it assigns them to ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] if isinstance(node.value, ast.Name) and node.value.id == "self" else []


def private_uses(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """What a module uses of PySpark that is not public; ``own`` are the names that windrow gives to its own."""
    own = (own | PYTHONS) - PRIVATE
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("pyspark."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pyspark":
            module = str(node.module)
            for name in (alias.name for alias in node.names):
                is_public = PUBLIC_IN_SPARK.fullmatch(module) and not name.startswith("_") and name != "cloudpickle"
                if not is_public:
                    yield f"{module}.{name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("pyspark."):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr"}:
            name = ast.literal_eval(node.args[1]) if isinstance(node.args[1], ast.Constant) else ""
            if re.match("_(?!_)", name) and name not in own:
                yield name
        elif isinstance(node, ast.Attribute) and re.match("_(?!_)", node.attr) and node.attr not in own:
            yield node.attr


@pytest.mark.parametrize(
    "line",
    [
        *("spark._jvm", "frame._jdf", "frame._plan", "spark._jsparkSession", "spark._jsc", "spark.sparkContext._sc"),
        *("from pyspark import cloudpickle", "from pyspark.daemon import manager", "import pyspark.worker"),
        *("getattr(error, '_stackTrace', None)", "from pyspark.find_spark_home import _find_spark_home"),
    ],
)
def test_private_uses_are_found(line: str) -> None:
    assert [*private_uses(ast.parse(line), {"_mine", "_plan"})]


def test_public_uses_are_no_private_ones() -> None:
    lines = "from pyspark import TaskContext\nfrom pyspark.sql import functions\nself._mine.collect()\nrow._replace()"
    assert [*private_uses(ast.parse(lines), {"_mine"})] == []


def test_the_architecture_names_each_module_that_uses_private_parts_of_libraries() -> None:
    trees = {file: tree_of(file) for package in PACKAGES.values() for file in package.rglob("*.py")}
    own = {name for tree in trees.values() for name in own_names(tree)}
    uses = {str(file.relative_to(RUNTIME)): {*private_uses(trees[file], own)} for file in RUNTIME.rglob("*.py")}
    table = (ROOT / "docs" / "architecture.md").read_text().partition("### What is not public")[2].partition("\n#")[0]
    module_in_table = r"`(windrow_(?:spark|sql)/[\w/]+\.py)`"
    modules_named = [re.findall(module_in_table, line.split(" | ")[0]) for line in table.splitlines()]
    named = {name for names in modules_named for name in names}
    assert {module: found for module, found in uses.items() if found and module not in named} == {}
    assert [name for name in sorted(named) if not (RUNTIME / name).is_file()] == []


SHARED_NAMES = {
    ("builder", "functions"): {"broadcast"}  # the streams, and the functions that they take
}
"""Modules of sibling folders that have one name since they are one thing in two places."""


def test_a_module_name_means_one_thing_among_sibling_folders() -> None:
    # Each connector has a reader and a writer, and so have databases, Delta Lake and Iceberg.
    shared: dict[tuple[str, str], set[str]] = {}
    for package in PACKAGES.values():
        names = {folder: {file.stem for file in folder.glob("*.py")} for folder in folders(package)}
        for one, other in combinations(sorted(names), 2):
            both = names[one] & names[other] - {"__init__"}
            if one.parent == other.parent and both and one.parent.name not in ("connectors", "windrow_sql"):
                shared[str(one.relative_to(package)), str(other.relative_to(package))] = both
    assert shared == SHARED_NAMES


BUDGETS = {
    "windrow": 33_780,
    "windrow_runtime": 25_440,
    "windrow_spark": 33_460,
    "windrow_kafka": 4_060,
    "windrow_sql": 2_950,
    "windrow_tools": 7_110,
}
"""The most lines of each package, docstrings and blank lines included; who raises one says what users get for it."""


def test_packages_keep_their_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        name: sum(len(file.read_text().splitlines()) for file in package.rglob("*.py"))
        for name, package in PACKAGES.items()
    }
    with capsys.disabled():
        print(f"\nlines: {lines}")
    assert {name: count for name, count in lines.items() if count > BUDGETS[name]} == {}


def test_what_covers_a_test_of_the_night_exists() -> None:
    files = {file.name for file in ROOT.glob("tests/**/*.py")}
    reasons = [
        (file, str(keyword.value.value))
        for file in ROOT.glob("tests/**/*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "thorough"
        for keyword in call.keywords
        if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant)
    ]
    assert len(reasons) > 30
    named = [(file, name) for file, reason in reasons for name in re.findall(r"[\w/]*\w\.py", reason)]
    assert [pair for pair in named if Path(pair[1]).name not in files] == []
    assert [pair for pair in named if "/" in pair[1] and not (ROOT / pair[1]).exists()] == []

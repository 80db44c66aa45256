"""What all tests share: one Spark session, and the examples of README.md and docs/ as tests.

It stands at the root because tests, docstrings and pages all need it.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from sybil import Document, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.myst import PythonCodeBlockParser

from tests.budget import PROFILE, register_profiles
from tests.java import JAVA_OPTIONS
from tests.spark_home import home_without_zip, options_with_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

register_profiles()

# Tests of the fixtures that windrow brings run pytests of their own.
pytest_plugins = ["pytester"]

# Programs that tests start would compile all modules anew, and so would pytest in each worker at each run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# For the session of the tests and for all programs that they start.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA_OPTIONS)
if "SPARK_HOME" not in os.environ and (home := home_without_zip()) is not None:
    os.environ["SPARK_HOME"] = home
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options_with_classes())
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)

ROOT = Path(__file__).parent
SERVERS = {"kafka", "s3", "hdfs"}
"""The fixtures whose servers need Java, or packages that are fetched."""
USES_SPARK = re.compile(r"\bpyspark\b|\bwindrow_runtime\.spark\b|\bwindrow_spark\b|\bSparkRunner\b")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run what needs Spark over a Spark Connect server")
    parser.addoption("--thorough", action="store_true", help="run also the tests marked for `make thorough`")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """The one Spark session of the test run: embedded, two cores, nothing left behind."""
    from tests.spark.session import embedded_session

    connect = bool(pytestconfig.getoption("--connect"))
    with embedded_session(tmp_path_factory.mktemp("warehouse"), connect=connect) as session:
        yield session


@pytest.fixture(autouse=True)
def spark_if_marked(request: pytest.FixtureRequest) -> None:
    """Start the shared session for every test marked `spark`, so that none makes a session of its own."""
    marked = request.node.get_closest_marker
    if marked("spark") is not None and marked("program") is None:
        request.getfixturevalue("spark")


def pytest_itemcollected(item: pytest.Item) -> None:
    if not _is_thorough(item.config) and (marker := item.get_closest_marker("thorough")) is not None:
        item.add_marker(pytest.mark.skip(reason=f"in `make thorough` alone: {marker.kwargs['reason']}"))
    if item.config.getoption("--connect") and (marker := item.get_closest_marker("classic")) is not None:
        item.add_marker(pytest.mark.skip(reason=marker.kwargs["reason"]))
    if "spark" in getattr(item, "fixturenames", ()) or USES_SPARK.search(_example_code(item)):
        item.add_marker(pytest.mark.spark)
    if not SERVERS.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.server)
    if item.get_closest_marker("program") is not None:
        item.add_marker(pytest.mark.spark)
        # One of them starts Spark up to five times, and another test may run beside it.
        item.add_marker(pytest.mark.timeout(900))


def pytest_collection_finish() -> None:
    """Keep what was collected out of each full collection of garbage, which else takes a tenth of the tests' time."""
    gc.collect()
    gc.freeze()


def _is_thorough(config: pytest.Config) -> bool:
    return bool(config.getoption("--thorough")) or PROFILE == "thorough"


def _example_code(item: pytest.Item) -> str:
    """The code of an example: of a docstring, or of a whole page, since its examples build on each other."""
    if isinstance(item, pytest.DoctestItem):
        return "".join(example.source for example in item.dtest.examples)
    if isinstance(item, SybilItem):
        page = item.example.document
        return "".join(page.text[region.start : region.end] for _, region in page.regions)
    return ""


class Page(Document):
    """A page whose examples run as one script.

    They run as `__main__`, as the reader's script does. Spark then pickles their classes and functions by
    value, and annotations resolve.
    """

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text, path)
        module = ModuleType("__main__")
        module.__dict__.update(__file__=path, __page__=module)
        self.namespace = module.__dict__


_MAIN = sys.modules["__main__"]


def _enter_page(namespace: dict[str, object]) -> None:
    page = namespace["__page__"]
    assert isinstance(page, ModuleType)
    sys.modules["__main__"] = page


def _leave_page(_: dict[str, object]) -> None:
    sys.modules["__main__"] = _MAIN


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    document_types={".md": Page},
    setup=_enter_page,
    teardown=_leave_page,
    fixtures=["spark_if_marked"],
).pytest()

"""Fixtures for tests of pipelines, which pytest finds by itself where windrow is installed.

``stream_harness``, ``local_runner``, ``assert_same_on_spark``, ``windrow_spark`` and ``timeline_snapshot``; each says
below what it is.
Nothing of windrow is imported before a test asks for one of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windrow import DataStream, Pipeline
    from windrow_runtime.local import LocalRunner
    from windrow_tools.pictures import Timeline
    from windrow_tools.testing import PushSource, StreamHarness

__all__ = ["AssertSameOnSpark", "MakeHarness", "MakeRunner", "TimelineSnapshot"]

_UPDATE = "--windrow-update"
_REQUIRE = "--windrow-require-spark"
_SHUFFLE = "--windrow-shuffles-keys"
_SHUFFLE_INI = "windrow_shuffles_keys"


class MakeHarness(Protocol):
    """The fixture ``stream_harness``: opens harnesses that are closed when the test ends.

    ``stream_harness(stream, source, record=True)`` takes what :class:`~windrow_runtime.testing.StreamHarness` takes.
    Keys come in the order of the seed that pytest was given, unless ``shuffles_keys`` says another one, or None.
    """

    # Any: elements of the source, and of the stream.
    def __call__(
        self,
        stream: DataStream[Any],
        source: PushSource[Any] | None = None,
        *,
        also: tuple[DataStream[Any], ...] = (),
        record: bool = False,
        isolates_functions: bool = True,
        shuffles_keys: int | None = ...,
    ) -> StreamHarness[Any, Any]: ...


class MakeRunner(Protocol):
    """The fixture ``local_runner``: makes runners of the interpreter.

    ``local_runner(record=True)`` takes what :class:`~windrow_runtime.local.LocalRunner` takes, and shows no progress.
    Keys come in the order of the seed that pytest was given, unless ``shuffles_keys`` says another one, or None.
    """

    def __call__(
        self,
        *,
        clock: Callable[[], int] | None = None,
        fast: bool = True,
        record: bool = False,
        isolates_functions: bool = False,
        shuffles_keys: int | None = ...,
    ) -> LocalRunner: ...


class AssertSameOnSpark(Protocol):
    """The fixture ``assert_same_on_spark``: runs a pipeline on both engines, and compares what came out.

    It fails with the elements that one engine alone has, by sink. What a step emits for different keys has no order, so
    order counts only with ``in_order=True``. Counters, such as of late elements, are compared too. A stream is compared
    as a pipeline of it alone; sinks other than :class:`~windrow.sinks.CollectSink` are refused, since they would be
    written twice. Results that depend on the clock differ from run to run, on one engine too.
    """

    # Any: elements of every type.
    def __call__(
        self, pipeline: Pipeline | DataStream[Any], /, *, in_order: bool = False, drain: bool = True
    ) -> None: ...


class TimelineSnapshot(Protocol):
    """The fixture ``timeline_snapshot``: compares a picture of a run with the one that is kept beside the test.

    ``timeline_snapshot(picture)`` compares with ``__timelines__/MODULE.TEST.svg``, or ``MODULE.CLASS.TEST.svg`` for a
    test in a class; ``name`` tells several pictures of one test apart. Run pytest with ``--windrow-update`` to keep the
    pictures that the tests draw now, and look at them.
    """

    def __call__(self, picture: Timeline, /, name: str = "") -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixtures."""
    group = parser.getgroup("windrow")
    group.addoption(_UPDATE, action="store_true", help="keep the time lines that tests draw now")
    group.addoption(
        _REQUIRE, action="store_true", help="fail tests that need Spark where it cannot run, instead of skipping them"
    )
    about = "the seed of another order of keys, as Spark may have, for stream_harness and local_runner"
    group.addoption(_SHUFFLE, metavar="SEED", help=about)
    parser.addini(_SHUFFLE_INI, help=about)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say by which seed keys come in another order."""
    seed = _seed(config)
    return None if seed is None else f"windrow: keys in the order of {_SHUFFLE}={seed}"


def _seed(config: pytest.Config) -> int | None:
    text = config.getoption(_SHUFFLE) or config.getini(_SHUFFLE_INI)
    try:
        return int(text) if text else None
    except ValueError:
        raise pytest.UsageError(f"{_SHUFFLE} and {_SHUFFLE_INI} take an int, and not {text!r}") from None


@pytest.fixture
def stream_harness(pytestconfig: pytest.Config) -> Iterator[MakeHarness]:
    """Open harnesses that are closed when the test ends; see :class:`MakeHarness`."""
    from windrow_tools.testing import StreamHarness

    with ExitStack() as harnesses:

        def make(stream: DataStream[Any], source: PushSource[Any] | None = None, **options: Any) -> Any:
            options = {"shuffles_keys": _seed(pytestconfig), **options}
            return harnesses.enter_context(StreamHarness(stream, source, **options))

        yield make


@pytest.fixture
def local_runner(pytestconfig: pytest.Config) -> MakeRunner:
    """Make runners of the interpreter; see :class:`MakeRunner`."""
    from windrow_runtime.local import LocalRunner

    # Any: the options of a runner.
    def make(**options: Any) -> LocalRunner:
        return LocalRunner(**{"progress": False, "shuffles_keys": _seed(pytestconfig), **options})

    return make


@pytest.fixture(scope="session")
def windrow_spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """The Spark session of all tests: the active one, or a new one with two cores that stops with the last test.

    A test that asks for it is skipped where Spark or Java is missing, unless pytest runs with
    ``--windrow-require-spark``.
    """
    from windrow.errors import WindrowError

    try:
        # Names the packages that are missing, if any are.
        from windrow_spark import SparkRunner  # noqa: F401
        from windrow_spark.session import local_session, session_there

        is_there = session_there() is not None
        with _found_by_workers(pytestconfig.rootpath):
            session = local_session(2)
    except (WindrowError, ImportError) as error:
        if pytestconfig.getoption(_REQUIRE):
            raise
        pytest.skip(f"Spark cannot run here: {error}")
    yield session
    if not is_there:
        session.stop()


@contextmanager
def _found_by_workers(root: Path) -> Iterator[None]:
    """Has a session that is started within the block find the modules of tests, by the names that pytest gives them.

    With ``--import-mode=importlib`` names begin at the root folder, which is on no path. The working directory, which
    workers have, may be another one.
    """
    sys.path.append(str(root))
    try:
        yield
    finally:
        sys.path.reverse()  # the session may have appended paths of its own: the last of this name is ours
        sys.path.remove(str(root))
        sys.path.reverse()


@pytest.fixture
def assert_same_on_spark(windrow_spark: SparkSession) -> AssertSameOnSpark:
    """Compare the engines; see :class:`AssertSameOnSpark`."""
    from windrow_tools.pytest_plugin.comparison import compare_engines

    def compare(pipeline: Pipeline | DataStream[Any], /, *, in_order: bool = False, drain: bool = True) -> None:
        __tracebackhide__ = True
        if differences := compare_engines(pipeline, windrow_spark, in_order=in_order, drain=drain):
            pytest.fail(differences, pytrace=True)

    return compare


@pytest.fixture
def timeline_snapshot(request: pytest.FixtureRequest) -> TimelineSnapshot:
    """Compare pictures with those that are kept; see :class:`TimelineSnapshot`."""

    def compare(picture: Timeline, /, name: str = "") -> None:
        __tracebackhide__ = True
        classes = [each.name for each in request.node.listchain() if isinstance(each, pytest.Class)]
        names = (request.path.stem, *classes, request.node.name, name)
        kept_file = request.path.parent / "__timelines__" / f"{'.'.join(filter(None, map(_file_name, names)))}.svg"
        new_file = kept_file.with_suffix(".new.svg")
        new_file.unlink(missing_ok=True)  # of a run before
        if request.config.getoption(_UPDATE):
            kept_file.parent.mkdir(exist_ok=True)
            kept_file.write_text(picture.svg, encoding="utf-8")
        elif not kept_file.exists():
            pytest.fail(f"no picture is kept as {_shown(kept_file)}; pytest {_UPDATE} keeps the one that is drawn now")
        elif kept_file.read_text(encoding="utf-8") != picture.svg:
            new_file.write_text(picture.svg, encoding="utf-8")
            pytest.fail(
                f"the picture is not the one that is kept as {_shown(kept_file)}; the new one is {_shown(new_file)}: "
                f"look at both, and run pytest {_UPDATE} if the new one is right"
            )

    return compare


def _file_name(text: str) -> str:
    """Returns a name of a file for a text; two texts have two."""
    safe = "-_ []=,+"  # neither the dot between parts, nor what a file system refuses
    escaped = (f"%{sign.encode('utf-8', 'surrogatepass').hex('%')}" for sign in text)
    return "".join(sign if sign.isalnum() or sign in safe else each for sign, each in zip(text, escaped, strict=True))


def _shown(path: Path) -> str:
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else str(path)

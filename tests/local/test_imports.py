"""The interpreter and the harness run where neither Spark nor Arrow is installed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

PROGRAM = """
    import sys
    from importlib.abc import MetaPathFinder

    class Absent(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("pyspark", "pyarrow", "pandas", "py4j"):
                raise ModuleNotFoundError(name, name=name)

    sys.meta_path.insert(0, Absent())

    import pathlib
    from datetime import timedelta

    import windrow_runtime.testing
    from tests.support.records import KeyAt
    from tests.support.runs import in_order
    from windrow import Pipeline, from_source
    from windrow.sinks import CollectSink, JsonFileSink
    from windrow.sources import JsonFileSource
    from windrow.windows import TumblingEventTimeWindows
    from windrow_runtime.local import LocalRunner

    folder = pathlib.Path(sys.argv[1])
    (folder / "in.json").write_text('{"key": "a", "at": 1}\\n{"key": "a", "at": 2}\\n')
    keyed = in_order(from_source(JsonFileSource(folder / "in.json", KeyAt)), lambda e: e.at).key_by(lambda e: e.key)
    latest = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).reduce(lambda a, b: b)
    sink = CollectSink()
    result = LocalRunner().run(Pipeline("p", latest.sink_to(sink), latest.sink_to(JsonFileSink(folder / "out"))))
    print(result.collected(sink), (folder / "out/batch-2-part-0.json").read_text().strip())
"""


def test_a_pipeline_runs_without_spark_and_arrow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == '[KeyAt(key=\'a\', at=2)] {"key":"a","at":2}\n'


def test_importing_them_imports_neither(tmp_path: Path) -> None:
    program = (
        "import sys, windrow_runtime.local, windrow_runtime.testing;"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

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

    import dataclasses
    import pathlib
    from datetime import timedelta

    import windrow_runtime.local
    import windrow_runtime.testing
    from windrow import Pipeline, WatermarkStrategy, from_source
    from windrow.sinks import CollectSink, JsonFileSink
    from windrow.sources import JsonFileSource
    from windrow.windows import TumblingEventTimeWindows

    @dataclasses.dataclass
    class Reading:
        key: str
        at: int

    folder = pathlib.Path(sys.argv[1])
    (folder / "in.json").write_text('{"key": "a", "at": 1}\\n{"key": "a", "at": 2}\\n')
    latest = (
        from_source(JsonFileSource(folder / "in.json", Reading))
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps(), timestamp=lambda reading: reading.at
        )
        .key_by(lambda reading: reading.key)
        .window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
        .reduce(lambda a, b: b)
    )
    sink = CollectSink()
    pipeline = Pipeline("plain", latest.sink_to(sink), latest.sink_to(JsonFileSink(folder / "out")))
    result = windrow_runtime.local.LocalRunner().run(pipeline)
    print(result.collected(sink), (folder / "out/batch-2-part-0.json").read_text().strip())
"""


def test_a_pipeline_runs_without_spark_and_arrow(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == '[Reading(key=\'a\', at=2)] {"key":"a","at":2}\n'


def test_importing_them_imports_neither(tmp_path: Path) -> None:
    program = (
        "import sys, windrow_runtime.local, windrow_runtime.testing;"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

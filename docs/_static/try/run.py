"""Runs a program of the page "Try it": its pipelines, what they collected, and pictures of their keyed steps."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import sys
import traceback
import types
import warnings
from collections.abc import Iterator
from typing import Any

from windrow import Pipeline, WindrowError
from windrow.sinks import CollectSink
from windrow_runtime.local import LocalRunner
from windrow_runtime.pictures import lanes, timeline

_FILE = "program.py"
_WIDTH = 680
_MOST_VALUES = 200
_MOST_PRINTED = 100_000
_LONGEST_VALUE = 5_000


class _Printed(io.StringIO):
    """What a program prints: so much of it that a page can show it. A program that closes its stream has it still."""

    has_more = False

    def write(self, text: str, /) -> int:
        room = max(_MOST_PRINTED - self.tell(), 0)
        self.has_more = self.has_more or len(text) > room
        super().write(text[:room])
        return len(text)

    def close(self) -> None:
        """Leaves it open."""

    def shown(self) -> str:
        return self.getvalue() + ("\n… and more" if self.has_more else "")


def run_program(code: str) -> str:
    """Runs a program, and every pipeline that it leaves in a variable; returns what to show, as JSON."""
    printed = _Printed()
    linecache.cache[_FILE] = (len(code), None, code.splitlines(keepends=True), _FILE)
    # Classes look for their module by name, for example to resolve annotations.
    module = types.ModuleType("program")
    module.__file__ = _FILE
    sys.modules["program"] = module
    answer: dict[str, Any] = {"runs": [], "error": None}
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        try:
            exec(compile(code, _FILE, "exec"), module.__dict__)
            pipelines = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
            if not pipelines:
                raise SystemExit("the program leaves no Pipeline in a variable, so there is nothing to run")
            answer["runs"] = [_run(pipeline, vars(module)) for pipeline in pipelines.values()]
        except WindrowError as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        except SystemExit as end:
            answer["error"] = str(end) if end.args else "the program has ended itself"
        except BaseException:
            answer["error"] = _users_part(*sys.exc_info())
    answer["printed"] = printed.shown()
    return json.dumps(answer)


def _run(pipeline: Pipeline, names: dict[str, object]) -> dict[str, Any]:
    result = LocalRunner(record=True).run(pipeline)
    sinks = {name: sink for name, sink in names.items() if isinstance(sink, CollectSink)}
    collected = []
    for name, sink in sinks.items():
        with contextlib.suppress(WindrowError):  # a sink of another pipeline
            values = result.collected(sink)
            shown = [_cut(repr(value)) for value in values[:_MOST_VALUES]]
            collected.append({"name": name, "values": shown, "more": len(values) - len(shown)})
    return {
        "name": pipeline.name,
        "plan": pipeline.explain(),
        "collected": collected,
        "counters": {f"{step}: {name}": n for step, each in result.counters.items() for name, n in each.items()},
        "pictures": list(_pictures(result.recording)),
    }


def _pictures(recording: Any) -> Iterator[dict[str, str]]:
    for step, recorded in recording.steps.items():
        if recorded.elements:
            yield {"step": step, "svg": timeline(recording, step=step, width=_WIDTH, values=_short, by="order").svg}
    for step, recorded in recording.processes.items():
        if recorded.events:
            yield {"step": step, "svg": lanes(recording, step=step, width=_WIDTH, values=_short).svg}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _short(value: object) -> str:
    says_itself = type(value).__str__ not in (object.__str__, tuple.__str__)
    text = ", ".join(map(str, value)) if isinstance(value, tuple) and not says_itself else str(value)
    return text if len(text) <= 24 else text[:23] + "…"


def _users_part(kind: Any, error: Any, trace: Any) -> str:
    """The traceback from the program on: what lies before it is this page's."""
    while trace is not None and trace.tb_frame.f_code.co_filename != _FILE:
        trace = trace.tb_next
    return "".join(traceback.format_exception(kind, error, trace)).strip()

"""The reference explains every parameter of every public function, constructor and method."""

from __future__ import annotations

import inspect

import pytest

from docs import conf
from docs.parameters import named_by_class, named_in, public_callables, unexplained
from windrow import sinks, sources, state


def test_each_parameter_is_named_in_a_docstring() -> None:
    missing = {
        name: parameters
        for name, target, explained in public_callables(conf.PUBLIC_MODULES)
        if (parameters := unexplained(target, explained))
    }
    assert missing == {}


def test_all_kinds_of_callables_are_looked_at() -> None:
    names = {name for name, *_ in public_callables(conf.PUBLIC_MODULES)}
    assert len(names) > 500
    assert {
        "windrow.from_source",
        "windrow.OutputTag",
        "windrow.DataStream.union",
        "windrow.AllWindowedStream.reduce",
        "windrow.triggers.CountOrEndOfStreamTrigger.of",
        "windrow.sources.CsvFileSource",
    } <= names


def test_the_reference_shows_the_constructors_of_sources_sinks_and_descriptors() -> None:
    shown = {
        name
        for module in (sinks, sources, state)
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name)) and unexplained(kind, set()) and named_by_class(kind)
    }
    assert {"JsonFileSink", "TextFileSink", "CsvFileSource", "ValueStateDescriptor"} <= shown


class _Partly:
    """Has two parameters.

    Args:
        first: The first one,
            which is not second: a continued line names nothing.
    """

    def __init__(self, first: int, second: int) -> None: ...


@pytest.mark.parametrize("text", ["Args:\n        second: It is.", "Attributes:\n        second: It is."])
def test_a_parameter_that_no_section_names_is_found(text: str) -> None:
    assert unexplained(_Partly, named_by_class(_Partly)) == ["second"]
    assert unexplained(_Partly, named_by_class(_Partly) | named_in(f"Summary.\n\n    {text}\n    ")) == []

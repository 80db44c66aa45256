"""Gives the types of the fixtures for tests of pipelines."""

from windrow_tools.pytest_plugin import AssertSameOnSpark, MakeHarness, MakeRunner, TimelineSnapshot

__all__ = ["AssertSameOnSpark", "MakeHarness", "MakeRunner", "TimelineSnapshot"]

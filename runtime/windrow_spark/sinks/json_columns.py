"""Says whether columns are written as the JSON of their elements."""

from __future__ import annotations

from windrow.plan import Step
from windrow_runtime.codecs.record_type import Kind
from windrow_runtime.codecs.value_type import ANY_JSON
from windrow_runtime.outputs.output import written_type


def are_json_columns(step: Step) -> bool:
    """Returns whether the elements of a sink are records whose columns give the same JSON, and as fast.

    A column of decimals does not know how many digits each value has, and one of any JSON would have to be parsed.
    """
    root = written_type(step).root
    return root.kind is Kind.RECORD and not root.may_lack_keys and not root.contains(Kind.DECIMAL, *ANY_JSON)

"""Expected outputs in files.

A file is a JSON object: ``seed``, and ``cases`` by number. A case has a ``digest`` of its plan and input, its
``outputs`` (by name, then by key, a list of elements) and its ``counters`` (by step). An element or a key is JSON: an
event is ``[key, at, value]``, a time window ``[start, end]``, the global window ``"global"``. Keys are JSON text, since
they name fields. The order of elements within a key counts, and that of keys does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.differential.cases import Found, digest


class StoredError(Exception):
    """A file is not one of expected outputs, or one of other cases."""


def write(path: Path, seed: int, cases: Mapping[int, Found]) -> None:
    """Write a file."""
    content = {
        "seed": seed,
        "cases": {
            str(number): {"digest": digest(seed, number), "outputs": found.outputs, "counters": found.counters}
            for number, found in cases.items()
        },
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> tuple[int, dict[int, Found]]:
    """The seed of a file, and its cases.

    Raises:
        StoredError: If it cannot be read, or was written for other cases.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        seed = int(content["seed"])
        cases = {int(number): case for number, case in content["cases"].items()}
        found = {number: Found(case["outputs"], case["counters"]) for number, case in cases.items()}
        digests = {number: case["digest"] for number, case in cases.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoredError(f"{path} is no file of expected outputs: {type(error).__name__}: {error}") from error
    for number, known in digests.items():
        if digest(seed, number) != known:
            raise StoredError(
                f"{path} was written for another case {number} of seed {seed}: random cases have changed since"
            )
    return seed, found

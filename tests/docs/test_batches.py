"""The examples of the pages give the same results in batches of every size, and as a batch job of Spark.

What a page ran is run again over the same elements. Steps that wait for the clock are left out: what they give is what
the clock says.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.docs.page_runs import (
    ROOT,
    Elements,
    PageRun,
    as_main,
    main_of_all,
    pipeline_of,
    runs_of,
    runs_of_program,
    together,
)
from windrow.plan.nodes import FilterNode
from windrow_runtime.spark import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Any in this module: classes of pages, and their elements.

DOCS: Final = ROOT / "docs"
PAGES: Final = [
    ROOT / "README.md",
    *(DOCS / name for name in ("index.md", "tutorial.md", "why.md", "testing.md", "notebook.ipynb")),
    *(page for folder in ("concepts", "cookbook", "coming-from") for page in sorted((DOCS / folder).glob("*.md"))),
]
PROGRAMS: Final = [
    path
    for path in sorted((ROOT / "examples").glob("*.py"))
    if "Pipeline(" in (text := path.read_text(encoding="utf-8")) or "StreamHarness(" in text
]
SIZES: Final = (1, 2, None)
IN_JOBS: Final = [page for page in [*PAGES, *PROGRAMS] if page.name != "leaderboard.py"]
JOBS: Final = [pages for number in range(3) if (pages := IN_JOBS[number::3])]
"""Pages whose runs are one job of Spark."""

SHOWS_WHAT_IS_LATE: Final = {
    "README.md": "in a batch of its own",
    "docs/index.md": "in a batch of its own",
    "docs/tutorial.md": "each reading is a batch of its own",
    "docs/why.md": "in a batch of its own",
    "docs/notebook.ipynb": "With `batch_size=1` each row is a batch",
    "docs/cookbook/bound.md": "each element is a batch of its own",
    "docs/cookbook/late-data.md": "Which elements are late depends on how the stream is divided into batches",
    "docs/coming-from/bytewax.md": "In a batch job on Spark, as in the last lines of the example, nothing is late",
    "docs/coming-from/flink.md": "The late click is in a batch of its own",
    "docs/coming-from/kafka-streams.md": "A batch job on Spark, as in the last lines of the example, reads everything",
    "docs/coming-from/pyflink.md": "In a batch job on Spark nothing is late",
    "docs/coming-from/spark.md": "There are two files, a batch each, and the second one has a late click",
    "docs/coming-from/quix-streams.md": "A batch job on Spark, as in the last lines of the example, reads everything",
    "examples/orders_and_payments.py": "what comes too late",
}
"""Pages with late elements, which the watermarks of earlier batches decide, and where they say that the batches do.

With watermarks that wait for all elements, these examples give the same in all batches, too.
"""
FOLLOWS_BATCHES: Final = {
    ("docs/concepts/triggers.md", "ContinuousEventTimeTrigger"): "what has come so far",
    ("docs/cookbook/side-input.md", "by_number.connect"): "in other batches an order may get another rate",
    ("examples/rules_for_alerts.py", "connect(limits.broadcast"): "by rules that change while the stream runs",
}
"""Examples of what depends on batches by its nature, by a text near their line, and where their pages say so."""


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def runs(page: Path) -> tuple[ModuleType, list[PageRun]]:
    return runs_of_program(page) if page.suffix == ".py" else runs_of(page)


def says(page: Path, text: str) -> bool:
    return text in " ".join(page.read_text(encoding="utf-8").split())


def near(page: Path, run: PageRun) -> str:
    """The lines of a page around the step that a run ends with."""
    return "\n".join(page.read_text(encoding="utf-8").splitlines()[max(run.line - 6, 0) : run.line + 3])


def follows_batches(page: Path, run: PageRun) -> bool:
    return any(name == relative(page) and text in near(page, run) for name, text in FOLLOWS_BATCHES)


@pytest.mark.parametrize("page", [*PAGES, *PROGRAMS], ids=relative)
def test_results_are_the_same_in_all_batches(page: Path) -> None:
    module, of_page = runs(page)
    has_late = False
    with as_main(module):
        for run in of_page:
            results = [run.results(size) for size in SIZES]
            if results[0] == results[1] == results[2]:
                continue
            if follows_batches(page, run):
                continue
            has_late = True
            times: dict[int, list[int]] = {}
            run.results(None, times=times)
            patient = [run.results(size, times=times) for size in SIZES]
            assert patient[0] == patient[1] == patient[2], run.location
    assert has_late == (relative(page) in SHOWS_WHAT_IS_LATE)


@pytest.mark.parametrize(
    ("page", "text"), [*SHOWS_WHAT_IS_LATE.items(), *((page, text) for (page, _), text in FOLLOWS_BATCHES.items())]
)
def test_a_page_whose_results_follow_batches_says_so(page: str, text: str) -> None:
    assert says(ROOT / page, text)


@pytest.mark.parametrize("key", FOLLOWS_BATCHES, ids=" ".join)
def test_what_follows_batches_does(key: tuple[str, str]) -> None:
    page = ROOT / key[0]
    module, of_page = runs(page)
    with as_main(module):
        following = [run for run in of_page if follows_batches(page, run)]
        assert any(run.results(1) != run.results(None) for run in following)


@pytest.mark.parametrize("pages", JOBS, ids=lambda pages: relative(pages[0]))
def test_a_batch_job_of_spark_gives_the_same(spark: SparkSession, pages: list[Path]) -> None:
    every = [run for page in pages for run in runs(page)[1]]
    with as_main(main_of_all(runs(page)[0] for page in pages)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copies = [run.copy(read) for run, read in zip(every, together(every), strict=True)]
        result = SparkRunner(spark).run_batch(pipeline_of(copies))
        for run, copy in zip(every, copies, strict=True):
            assert copy.shown(result) == run.results(None), run.location


def _repeated(module: Any, chance: random.Random, minute: int) -> Any:
    return module.Payment(chance.choice("abc"), "north", 100, minute * 60_000)


def _messages(module: Any, chance: random.Random, minute: int) -> Any:
    return module.Message(chance.choice("ab"), minute)


OTHERS: Final[dict[tuple[str, str], tuple[Callable[[Any, random.Random, int], Any], ...]]] = {
    ("docs/cookbook/silence.md", ".filter(lambda alert"): (_messages,),
    ("docs/cookbook/patterns.md", ".select(Guessed"): (
        lambda module, chance, minute: module.Login(chance.choice("ab"), minute, ok=chance.random() < 0.3),
    ),
    ("docs/cookbook/deduplicate.md", ".window(Tumbling"): (_repeated,),
    ("docs/concepts/process-functions.md", "by_order.process(Unpaid"): (
        lambda module, chance, minute: module.Event(chance.randrange(3), chance.choice(["placed", "paid"])),
    ),
    ("docs/concepts/two-streams.md", ".process(Unpaid"): (
        lambda module, chance, minute: module.Order(minute // 3, "tea"),
        lambda module, chance, minute: module.Payment(chance.randrange(minute // 3 + 1), 1.0),
    ),
}
"""How other elements are made for the functions with timers and state, by a text near the line of their step."""


@pytest.mark.parametrize("key", OTHERS, ids=lambda key: key[0])
def test_functions_of_pages_give_the_same_over_other_elements(key: tuple[str, str]) -> None:
    page = ROOT / key[0]
    module, of_page = runs(page)
    (run,) = [each for each in of_page if key[1] in near(page, each)]
    # The recipe leaves out what comes after its own records.
    run = dataclasses.replace(run, outputs=tuple(n.input if isinstance(n, FilterNode) else n for n in run.outputs))
    shown = 0
    with as_main(module):
        for seed in range(40):
            chance = random.Random(seed)
            other = run.with_elements([_drawn(module, chance, make, run) for make in OTHERS[key]])
            results = [other.results(size) for size in (1, 2, 5, None)]
            assert results[1:] == results[:1] * 3, seed
            shown += sum(map(len, results[0]))
    assert shown > 5


def test_silences_are_those_of_the_messages_in_order_of_time() -> None:
    module, (run,) = runs(DOCS / "cookbook" / "silence.md")
    run = dataclasses.replace(run, outputs=tuple(node.inputs[0] for node in run.outputs))
    with as_main(module):
        for seed in range(20):
            other = run.with_elements([_drawn(module, random.Random(seed), _messages, run)])
            minutes = {name: set[int]() for name in "ab"}
            for message in next(iter(other.elements.values())).values:
                minutes[message.device].add(message.minute)
            expected = [
                alert
                for name, came in minutes.items()
                for earlier, later in pairwise([*sorted(came), 10_000])
                if came and later - earlier > 5
                for alert in (module.Alert(name, earlier + 5, True), module.Alert(name, later, False))
                if alert.minute < 10_000
            ]
            assert other.results(2) == [Counter(map(repr, expected))], seed


def _drawn(module: ModuleType, chance: random.Random, make: Callable[..., Any], run: PageRun) -> Elements:
    """Thirty elements of two hours, as far out of order as the strategies of the pages allow: up to a minute."""
    most = 0.9 if make is _repeated else 1.9
    minutes = sorted((chance.randrange(120) for _ in range(30)), key=lambda minute: minute + most * chance.random())
    stamped = next(iter(run.elements.values())).are_stamped
    return Elements(
        [make(module, chance, minute) for minute in minutes],
        [minute * (60_000 if len(run.elements) == 1 else 1_000) for minute in minutes] if stamped else None,
    )

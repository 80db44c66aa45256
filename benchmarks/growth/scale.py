"""How much the measurements of growing state run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "QUICK", "Scale"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of the measurements.

    Attributes:
        keys: The smaller number of stored keys; the larger is ten times as many.
        touched: How many of them a batch touches.
        batches: How many batches are measured.
        settling: How many run before, while pages become as small as such batches need them.
        forms: The forms of state that are measured.
        windows: How many windows are open in a small driver.
        build: In how many batches they come to be.
        elements: How many elements a batch adds to the list of one key.
        lists: How many such batches there are.
        join_rows: Rows of a batch of two streams that are joined.
        join_users: How many users they are of.
        joins: How many such batches there are in the shorter stream; the longer has ten times as many.
        core_rows: Rows of a batch where cores are compared.
        core_rounds: How often each number of cores runs.
        core_warmup: Small batches of each form before, which do not count.
    """

    keys: int
    touched: tuple[int, ...]
    batches: int
    settling: int
    forms: tuple[str, ...]
    windows: int
    build: int
    elements: int
    lists: int
    join_rows: int
    join_users: int
    joins: int
    core_rows: int
    core_rounds: int
    core_warmup: int


FULL = Scale(
    keys=100_000,
    touched=(500, 5_000),
    batches=5,
    settling=20,
    forms=("columns", "column sessions", "table", "session", "process", "notes", "timed notes"),
    windows=5_000_000,
    build=10,
    elements=25_000,
    lists=20,
    join_rows=20_000,
    join_users=10_000,
    joins=20,
    core_rows=1_000_000,
    core_rounds=2,
    core_warmup=40,
)

QUICK = Scale(
    keys=500,
    touched=(50,),
    batches=1,
    settling=1,
    forms=("columns", "table"),
    windows=5_000,
    build=2,
    elements=1_000,
    lists=8,
    join_rows=500,
    join_users=100,
    joins=1,
    core_rows=2_000,
    core_rounds=1,
    core_warmup=1,
)

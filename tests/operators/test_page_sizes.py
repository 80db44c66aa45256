"""Which page a key lies in, and how large pages are to be: rules by themselves, without pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow_spark.columnar.rows.groups import pages_of
from windrow_spark.storage.keyed_pages import half_of, page_of
from windrow_spark.storage.tuning import OBJECT_PAGES, PageTuning

HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50)
COUNTS = st.integers(1, 1 << 17)
KEYS = st.integers(0, 1 << 20)
TOTALS = st.integers(16 << 10, 1 << 30)


def homes(hashes: list[int], count: int) -> list[int]:
    return [page_of(bits, count) for bits in hashes]


@given(HASHES, COUNTS)
def test_one_page_more_takes_keys_of_its_half_alone(hashes: list[int], count: int) -> None:
    for before, after in zip(homes(hashes, count), homes(hashes, count + 1), strict=True):
        assert 0 <= before < count
        assert after == before or (after, before) == (count, half_of(count))


@given(st.integers(1, 1 << 17))
def test_one_page_more_gets_some_of_all_keys(count: int) -> None:
    # The bits that say the number of a page are those of its keys.
    assert page_of(count, count + 1) == count
    assert page_of(count, count) == half_of(count) < count


@given(HASHES, COUNTS)
def test_arrays_of_keys_lie_where_each_key_does(hashes: list[int], count: int) -> None:
    found = pages_of(np.array(hashes, np.uint64), count)
    assert found.dtype == np.int64
    assert found.tolist() == homes(hashes, count)


@pytest.mark.parametrize(
    ("count", "pages"),
    [
        (1, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (2, [0, 1, 0, 1, 0, 1, 0, 1, 0]),
        (3, [0, 1, 2, 1, 0, 1, 2, 1, 0]),
        (5, [0, 1, 2, 3, 4, 1, 2, 3, 0]),
        (8, [0, 1, 2, 3, 4, 5, 6, 7, 0]),
    ],
)
def test_keys_lie_where_stored_ones_do(count: int, pages: list[int]) -> None:
    """What is stored holds to this: whoever changes it loses the keys of every checkpoint."""
    assert homes(list(range(9)), count) == pages
    assert pages_of(np.arange(9, dtype=np.uint64), count).tolist() == pages


def test_no_keys_have_no_pages() -> None:
    assert pages_of(np.array([], np.uint64), 5).tolist() == []


@given(KEYS, TOTALS, COUNTS)
def test_no_pages_are_both_too_large_and_too_small(keys: int, total: int, count: int) -> None:
    too_large = OBJECT_PAGES.are_too_large(total, count) or OBJECT_PAGES.are_too_large_for_few(keys, total, count)
    assert not (too_large and OBJECT_PAGES.are_too_small(keys, total, count))


@given(KEYS, TOTALS, COUNTS)
def test_pages_that_are_laid_out_are_of_the_right_size(keys: int, total: int, count: int) -> None:
    if OBJECT_PAGES.are_too_small(keys, total, count) or OBJECT_PAGES.are_too_large(total, count):
        count = OBJECT_PAGES.count_of(total, OBJECT_PAGES.dense)
        assert not OBJECT_PAGES.are_too_large(total, count)
        assert not (OBJECT_PAGES.touch_all(keys, count) and OBJECT_PAGES.are_too_small(keys, total, count))
    if OBJECT_PAGES.are_few(keys, total):
        count = OBJECT_PAGES.count_of(total, OBJECT_PAGES.small)
        assert not OBJECT_PAGES.are_too_large_for_few(keys, total, count)
        assert not OBJECT_PAGES.are_too_small(keys, total, count)


def test_sizes_go_with_what_a_batch_touches() -> None:
    total, dense, small = 1 << 20, 32, 2_048
    assert OBJECT_PAGES.count_of(total, OBJECT_PAGES.dense) == dense
    assert OBJECT_PAGES.count_of(total, OBJECT_PAGES.small) == small
    # A hundred keys of many want small pages, ten thousand dense ones, and a thousand leave them as they are.
    assert OBJECT_PAGES.are_too_large_for_few(100, total, dense)
    assert not OBJECT_PAGES.are_too_small(100, total, small)
    assert OBJECT_PAGES.are_too_small(10_000, total, small)
    assert not OBJECT_PAGES.are_too_large_for_few(10_000, total, dense)
    for count in (dense, small):
        assert not OBJECT_PAGES.are_too_small(1_000, total, count)
        assert not OBJECT_PAGES.are_too_large_for_few(1_000, total, count)


def test_pages_with_hardly_anything_are_joined_unless_the_sizes_say_otherwise() -> None:
    total, count = 20_000, 1_000
    assert OBJECT_PAGES.are_too_small(1, total, count)
    never = PageTuning(least=0)
    assert not never.are_too_small(1, total, count)


def test_a_batch_splits_what_it_read_and_less_where_something_was_due() -> None:
    assert OBJECT_PAGES.split_budget(1 << 20, has_due=False) == 1 << 20
    assert OBJECT_PAGES.split_budget(1 << 20, has_due=True) == 64 << 10
    assert OBJECT_PAGES.split_budget(500, has_due=True) == 500

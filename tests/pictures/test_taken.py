"""Where labels of a picture find a free place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from windrow_tools.pictures.panel import Area, OccupiedAreas

PLACES = st.integers(-60, 200)
AREAS = st.builds(
    lambda left, top, wide, tall: Area(left, top, left + wide, top + tall),
    PLACES,
    PLACES,
    st.integers(0, 90),
    st.integers(0, 90),
)


@given(st.lists(AREAS, max_size=8), st.lists(st.lists(AREAS, min_size=1, max_size=4), max_size=12))
def test_a_free_place_covers_nothing_that_was_taken(taken: list[Area], asked: list[list[Area]]) -> None:
    places = OccupiedAreas()
    places.add(taken)
    for candidates in asked:
        free = [area for area in candidates if not any(area.covers(other) for other in taken)]
        chosen = places.choose(candidates)
        assert chosen == (free[0] if free else None)
        if chosen is not None:
            taken = [*taken, chosen]

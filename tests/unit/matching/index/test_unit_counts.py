"""A column of numbers by vertex says what a plain dict without zeros says, however large its numbers become."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.matching.index.unit_counts import UnitCounts

numbers = st.one_of(st.just(0), st.integers(0, 300), st.integers(0, 2**63))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(0, 9), numbers), max_size=40))
def test_a_column_is_a_dict_without_zeros(changes):
    column, plain = UnitCounts(10), {}
    for vertex, number in changes:
        column.put(vertex, number)
        plain[vertex] = number
        plain = {i: each for i, each in plain.items() if each}
        assert dict(column) == plain
        assert len(column) == len(plain)
        assert [column.get(i) for i in range(10)] == [plain.get(i, 0) for i in range(10)]
        assert [i in column for i in range(10)] == [i in plain for i in range(10)]


def test_adding_gives_the_sum():
    column = UnitCounts(3)
    assert column.add(1, 200) == 200
    assert column.add(1, 200) == 400
    assert column.add(1, -400) == 0
    assert not column

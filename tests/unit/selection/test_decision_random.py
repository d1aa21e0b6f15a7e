"""The random numbers of a decision: known ones, spread evenly, and nothing of the decision before."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.selection.decisions import DecisionRandom

KNOWN = (6457827717110365317, 3203168211198807973, 9817491932198370423)  # SplitMix64 as published, from 1234567


def test_the_numbers_are_those_of_splitmix64() -> None:
    draws = DecisionRandom(1234567)
    assert tuple(draws.getrandbits(64) for _ in KNOWN) == KNOWN


@given(st.integers(), st.lists(st.sampled_from(["random", "gauss", "shuffle", "choice", "bytes"]), max_size=8))
def test_the_same_seed_gives_the_same_numbers_whatever_was_drawn_before(seed: int, before: list[str]) -> None:
    used, fresh = DecisionRandom(5), DecisionRandom(seed)
    for what in before:
        drawn = {
            "random": used.random,
            "gauss": used.gauss,
            "shuffle": lambda: used.shuffle([1, 2, 3]),
            "choice": lambda: used.choice("abc"),
            "bytes": lambda: used.randbytes(5),
        }
        drawn[what]()
    used.seed(seed)
    numbers = [(d.gauss(), d.random(), d.randrange(10), d.sample(range(9), 3)) for d in (used, fresh)]
    assert numbers[0] == numbers[1]


@given(st.integers(0, 200), st.integers())
def test_bits_are_as_many_as_asked_for(bits: int, seed: int) -> None:
    draws = DecisionRandom(seed)
    found = [draws.getrandbits(bits) for _ in range(64)]
    assert all(0 <= number < 1 << bits for number in found)
    if bits > 64:
        assert any(number >> bits - 1 for number in found)
        assert any(not number >> bits - 1 for number in found)


def test_one_draw_of_each_of_many_seeds_in_a_row_is_spread_evenly() -> None:
    count, bins = 20_000, 20
    counts = Counter(int(DecisionRandom(seed).random() * bins) for seed in range(count))
    expected = count / bins
    assert sum((counts[i] - expected) ** 2 / expected for i in range(bins)) < 50  # chi-square, 19 degrees: p 0.0001


def test_orders_are_spread_evenly() -> None:
    count, orders = 12_000, list(permutations(range(4)))
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(count):
        order = list(range(4))
        DecisionRandom(seed).shuffle(order)
        counts[tuple(order)] += 1
    expected = count / len(orders)
    assert sum((counts[order] - expected) ** 2 / expected for order in orders) < 56  # 23 degrees: p 0.0001


def test_it_can_go_back() -> None:
    draws = DecisionRandom(3)
    there = draws.getstate()
    first = draws.random()
    draws.setstate(there)
    assert draws.random() == first


def test_a_seed_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(TypeError):
        DecisionRandom().seed("text")

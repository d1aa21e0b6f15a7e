"""Random names and secrets: none twice, every one possible, also from several threads."""

from __future__ import annotations

import threading
from collections import Counter

from rainbow_sched.service.random_ids import Ids, Urandom


def test_no_two_threads_get_the_same_fence() -> None:
    ids, made = Ids(), list[list[str]]()

    def make() -> None:
        made.append([ids.fence() for _ in range(5_000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fences = [fence for some in made for fence in some]
    assert len(set(fences)) == len(fences) == 20_000
    assert all(len(fence) == 24 for fence in fences)


def test_numbers_fill_the_bits_asked_for_and_no_more() -> None:
    source = Urandom()
    for bits in (1, 5, 8, 32, 96, 40_000):
        drawn = [source.getrandbits(bits) for _ in range(200)]
        assert all(0 <= number < 1 << bits for number in drawn)
        assert any(number >> (bits - 1) for number in drawn), "the highest bit is never set"
        assert any(number & 1 for number in drawn), "the lowest bit is never set"


def test_every_letter_is_as_likely_as_the_others() -> None:
    source, letters = Urandom(), "abcdefghijklmnopqrstuvwxyz0123456789"
    drawn = Counter(source.choice(letters) for _ in range(36_000))
    assert set(drawn) == set(letters)
    assert all(800 < count < 1_200 for count in drawn.values())  # 1,000 are expected, six deviations allowed

"""The cache of prepared requests: one object per text, bounded in entries and characters."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.service import caches
from rainbow_sched.service.caches import RequestCache
from tests.support.service import a_request

REQUESTS = [a_request(nodes=1 + n % 3, cores=1 + n) for n in range(8)]
TEXTS = [prepare(request).text for request in REQUESTS]


def test_a_text_and_the_request_that_it_describes_are_one_object() -> None:
    cache = RequestCache()
    added = cache.add(REQUESTS[0])
    assert cache.of_text(TEXTS[0]) is added
    assert cache.add(a_request()) is added
    assert added.text == TEXTS[0]


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=40), st.integers(1, 5), st.integers(100, 700))
@settings(max_examples=100, deadline=None)
def test_the_least_recently_used_requests_are_dropped(
    uses: list[tuple[int, bool]], entries: int, characters: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "MAX_CACHED_REQUESTS", entries)
        patch.setattr(caches, "MAX_CACHED_CHARS", characters)
        cache, expected = RequestCache(), OrderedDict[str, None]()
        for number, as_text in uses:
            found = cache.of_text(TEXTS[number]) if as_text else cache.add(REQUESTS[number])
            assert (found.text, found.request) == (TEXTS[number], REQUESTS[number])
            expected[TEXTS[number]] = None
            expected.move_to_end(TEXTS[number])
            while len(expected) > entries or sum(map(len, expected)) > characters:
                expected.popitem(last=False)
            assert list(cache._requests) == list(expected)

"""The cache of requests with their answers drops the least recently used ones."""

from __future__ import annotations

import pytest

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.matching.index import answer_cache
from rainbow_sched.matching.index.answer_cache import AnswerCache
from tests.support.service import a_request


def test_requests_that_matching_cannot_tell_apart_share_an_entry() -> None:
    cache = AnswerCache()
    assert cache.of(prepare(a_request(cores=2))) is cache.of(prepare(a_request(cores=2)))
    assert cache.of(prepare(a_request(cores=2))) is not cache.of(prepare(a_request(cores=3)))


def test_the_least_recently_used_request_is_dropped_not_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "MAX_CACHED_ANSWERS", 2)
    cache = AnswerCache()
    first, second, third = (prepare(a_request(cores=cores)) for cores in (1, 2, 3))
    oldest = cache.of(first)
    dropped = cache.of(second)
    assert cache.of(first) is oldest
    cache.of(third)
    assert cache.of(first) is oldest, "it was used after the second one"
    assert cache.of(second) is not dropped

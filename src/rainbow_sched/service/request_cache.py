"""Prepared requests by their canonical text, so that each text is read once."""

from __future__ import annotations

from collections import OrderedDict

from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.request import Request

MAX_CACHED_REQUESTS = 4_096
MAX_CACHED_CHARS = 32 * 1024 * 1024  # of the canonical texts together


class RequestCache:
    """The requests that were submitted or read from the store last; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, PreparedRequest] = OrderedDict()
        self._chars = 0

    def of_text(self, text: str) -> PreparedRequest:
        """Return the request that a stored canonical text describes."""
        request = self._requests.get(text)
        if request is None:
            return self.add(from_json(text))
        self._requests.move_to_end(text)
        return request

    def add(self, request: Request) -> PreparedRequest:
        """Prepare a request; equal requests share one object while it is cached."""
        prepared = prepare(request)
        cached = self._requests.setdefault(prepared.text, prepared)
        self._requests.move_to_end(prepared.text)
        if cached is prepared:
            self._chars += len(prepared.text)
            while len(self._requests) > MAX_CACHED_REQUESTS or self._chars > MAX_CACHED_CHARS:
                dropped, _ = self._requests.popitem(last=False)
                self._chars -= len(dropped)
        return cached

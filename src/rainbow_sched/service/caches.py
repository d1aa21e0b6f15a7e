"""Caches by value: requests by their canonical text, and criteria of decisions by all that they depend on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from rainbow_sched.jobspecs.canonical import from_json
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.candidate import OwnerLimits
from rainbow_sched.model.job import Terms
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.request import Request
from rainbow_sched.selection.question import Criteria
from rainbow_sched.service.settings import Settings

MAX_CACHED_REQUESTS = 4_096  # prepared requests; bounds the memory of the cache
MAX_CACHED_CHARS = 32 * 1024 * 1024  # of the canonical texts together; bounds the memory of the cache
MAX_CACHED_CRITERIA = 2_048  # bounds the memory of the cache


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


class CriteriaCache:
    """Criteria by request, policy and limits; most jobs share them with others, and with them their stored record."""

    def __init__(self) -> None:
        self._criteria: dict[object, Criteria] = {}

    def of(self, request: PreparedRequest, terms: Terms, settings: Settings) -> Criteria:
        policy, options = policy_of(settings, terms)
        limits = _limits(terms)
        key = (request.digest, policy, tuple(options.items()), limits, settings.stale_after)
        criteria = self._criteria.get(key)
        if criteria is None:
            if len(self._criteria) >= MAX_CACHED_CRITERIA:
                self._criteria.clear()
            criteria = self._criteria[key] = Criteria(
                demand=request.demand,
                policy=policy,
                options=options,
                limits=limits,
                request_hash=request.digest,
                stale_after=settings.stale_after,
            )
        return criteria


def policy_of(settings: Settings, terms: Terms) -> tuple[str, Mapping[str, str]]:
    """Return the policy that the job names, with its options, else the server's."""
    if terms.policy:
        same = terms.policy == settings.policy and not terms.policy_options
        return terms.policy, settings.policy_options if same else terms.policy_options
    return settings.policy, settings.policy_options


def _limits(terms: Terms) -> OwnerLimits:
    prefer = terms.prefer
    return OwnerLimits(
        deadline=terms.deadline,
        max_cost=terms.max_cost,
        only=frozenset(terms.only_clusters),
        never=frozenset(terms.not_clusters),
        prefer="start" if prefer == "start" else "cost" if prefer == "cost" else "",
        later=terms.later,
        otherwise="refuse" if terms.fail_fast else "wait",
    )

"""Prepare a request: derive once what the service, matching and selection need of it."""

from __future__ import annotations

import hashlib

from rainbow_sched.jobspecs.canonical import encode, to_data
from rainbow_sched.model.candidate import Demand, PlacedSinceReport
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.request import Request
from rainbow_sched.model.request_summary import RequestSummary

_MATCHED = ("groups", "requires", "hosts", "not_hosts", "properties")  # all that matching depends on


def prepare(request: Request) -> PreparedRequest:
    """Return the request with its canonical text and what is derived from it."""
    data = to_data(request)
    text = encode(data)
    summary = RequestSummary.of(request)
    demand = Demand.of(request, summary)
    return PreparedRequest(
        request=request,
        text=text,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        match_key=encode([data.get(key) for key in _MATCHED]),
        summary=summary,
        demand=demand,
        size=PlacedSinceReport(1, demand.nodes, demand.cores),
    )

"""What jobs ask is worked out once for all that ask the same, and anew for whoever asks anything else."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.job import Terms
from rainbow_sched.model.request import Request
from rainbow_sched.service.scheduling import question as deciding
from rainbow_sched.service.scheduling.question import PlacementQuery, build_question
from tests.support.service import a_request, a_service


async def test_jobs_of_one_request_read_it_once_whatever_their_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Request] = []

    def noted(request: Request) -> str:
        read.append(request)
        return to_json(request)

    monkeypatch.setattr(deciding, "to_json", noted)
    request = a_request()
    spec = to_json(request)
    async with a_service(tmp_path) as service:
        labels = [Terms(labels={"member": str(n)}) for n in range(3)]
        asked = [build_question(service.core, PlacementQuery(request, spec, terms)).criteria for terms in labels]
    assert len(read) == 1
    assert {one.request_hash for one in asked} == {hashlib.sha256(spec.encode()).hexdigest()}


async def test_other_settings_terms_and_requests_are_asked_anew(tmp_path: Path) -> None:
    request, terms = a_request(), Terms()
    async with a_service(tmp_path) as service:
        core = service.core

        def asked(request: Request, terms: Terms) -> deciding.Criteria:
            return build_question(core, PlacementQuery(request, "", terms)).criteria

        first = asked(request, terms)
        assert asked(request, terms) is first
        assert asked(a_request(), Terms()) == first  # equal, though other objects
        assert asked(request, replace(terms, only_clusters=("alpha",))).limits.only == {"alpha"}
        assert asked(a_request(nodes=3), terms).demand.nodes == 3
        core.settings = replace(core.settings, policy="random", stale_after=7.0)
        later = asked(request, terms)
        assert (later.policy, later.stale_after) == ("random", 7.0)

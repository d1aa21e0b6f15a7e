"""Criteria of decisions: shared by the jobs of equal requests under equal terms."""

from dataclasses import replace
from pathlib import Path

from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.job import Terms
from rainbow_sched.model.request import Request
from rainbow_sched.selection.question import Criteria
from rainbow_sched.service.scheduling.plan import PlacementQuery, build_question
from tests.support.service import a_request, a_service


async def test_jobs_of_equal_requests_share_criteria_whatever_their_labels(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        terms = [Terms(labels={"member": str(n)}) for n in range(3)]
        queries = [PlacementQuery(prepare(a_request()), each) for each in terms]
        first, *others = [build_question(service.core, query).criteria for query in queries]
    assert all(one is first for one in others)
    assert first.request_hash == queries[0].request.digest


async def test_other_settings_terms_and_requests_have_other_criteria(tmp_path: Path) -> None:
    request, terms = a_request(), Terms()
    async with a_service(tmp_path) as service:
        core = service.core

        def criteria(request: Request, terms: Terms) -> Criteria:
            return build_question(core, PlacementQuery(prepare(request), terms)).criteria

        first = criteria(request, terms)
        assert criteria(a_request(), Terms()) is first
        assert criteria(request, replace(terms, only_clusters=("alpha",))).limits.only == {"alpha"}
        assert criteria(request, replace(terms, deadline=7.0)).limits.deadline == 7.0
        assert criteria(request, replace(terms, policy="least", policy_options={"key": "x"})).options == {"key": "x"}
        assert criteria(a_request(nodes=3), terms).demand.nodes == 3
        core.settings = replace(core.settings, policy="random", stale_after=7.0)
        later = criteria(request, terms)
        assert (later.policy, later.stale_after) == ("random", 7.0)

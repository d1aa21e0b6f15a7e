"""Whatever a driver raises, the agent lives on, and its answer says what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from rainbow_sched.agent.backends.base import Backend
from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.values import Unknown
from rainbow_sched.agent.runtime.loop import BackendCalls
from rainbow_sched.agent.runtime.site_rules import SiteRules, job_expression
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.protocol.messages import AttemptRef, BidRequest, Offer
from tests.support.service import a_request

REF = AttemptRef(1, 1, "t1")
OFFER = Offer(ref=REF, owner="user:ana", spec=to_json(a_request()))
BID = BidRequest(id="b1", spec=OFFER.spec, deadline=1.0)
FAULTS = [Unavailable("the controller does not answer"), OSError("stale file handle"), KeyError("State")]


class Failing:
    """A driver that fails in one way, whatever it is asked."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: object) -> None:
            raise self._fault

        return fail


@pytest.fixture(params=FAULTS, ids=lambda fault: type(fault).__name__)
def errands(request: pytest.FixtureRequest) -> BackendCalls:
    return BackendCalls("here", cast("Backend", Failing(request.param)), SiteRules(), run_guard=1500.0)


async def test_output_that_cannot_be_read_is_not_taken_for_gone(errands: BackendCalls) -> None:
    assert await errands.run(e.ReadOutput(REF, "stdout", 0, 10)) == e.OutputUnread(REF, "stdout")


async def test_an_offer_that_the_manager_cannot_judge_is_handed_back_and_its_request_is_not_blamed(
    errands: BackendCalls,
) -> None:
    judged = await errands.run(e.CheckOffer(OFFER))
    assert isinstance(judged, e.OfferChecked)
    assert judged.reason is not None
    assert judged.reason.startswith("the manager could not check the job: ")


async def test_a_bid_that_cannot_be_made_is_a_no_with_its_reason(errands: BackendCalls) -> None:
    ready = await errands.run(e.AskBid(BID))
    assert isinstance(ready, e.BidReady)
    assert not ready.answer.yes
    assert ready.answer.reason


async def test_what_became_of_a_submission_or_a_tag_is_then_unknown(errands: BackendCalls) -> None:
    assert isinstance(await errands.run(e.Submit(OFFER)), e.SubmitUnclear)
    found = await errands.run(e.Lookup(REF))
    assert isinstance(found, e.LookedUp)
    assert isinstance(found.answer, Unknown)


@pytest.mark.parametrize("spec", ["", "{", "[]", "[" * 90_000, '{"rainbow": "request/99"}', "\ud800"])
async def test_an_offer_that_this_agent_does_not_understand_is_handed_back(errands: BackendCalls, spec: str) -> None:
    judged = await errands.run(e.CheckOffer(replace(OFFER, spec=spec)))
    assert isinstance(judged, e.OfferChecked)
    assert "cannot read the request" in str(judged.reason)


async def test_terms_that_cannot_be_read_do_not_end_the_agent(errands: BackendCalls) -> None:
    choosy = replace(errands, rules=SiteRules(accept=job_expression("--accept", 'labels.team == "bio"')))
    judged = await choosy.run(e.CheckOffer(replace(OFFER, terms="[" * 90_000)))
    assert isinstance(judged, e.OfferChecked)
    assert judged.reason

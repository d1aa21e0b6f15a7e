"""Terms between clients, servers and agents of this version and of the one that did not know reruns."""

from __future__ import annotations

import pytest

from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.job import Delivery, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.pb.v2 import jobs_pb2
from rainbow_sched.protocol.messages import AttemptRef, Offer
from rainbow_sched.server.codec import opened, terms_in, terms_out
from rainbow_sched.service.agents.answer_draft import offer_of

ANA = Principal(name="ana", kind=CredentialKind.USER, scopes=frozenset({"submit:*"}))
GUARD = 1_500.0


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (jobs_pb2.Terms(), Terms()),
        (jobs_pb2.Terms(retries=2), Terms(retries=2)),
        (jobs_pb2.Terms(delivery="at-most-once", retries=2), Terms(retries=2)),
        (jobs_pb2.Terms(delivery="at-least-once"), Terms(reruns=3)),
        (jobs_pb2.Terms(delivery="at-least-once", retries=2), Terms(retries=2, reruns=3)),
        (jobs_pb2.Terms(delivery="at-least-once", reruns=5), Terms(reruns=5)),
        (jobs_pb2.Terms(reruns=5), Terms(reruns=5, delivery=Delivery.AT_LEAST_ONCE)),
    ],
)
def test_terms_of_an_older_client_are_understood(sent: jobs_pb2.Terms, meant: Terms) -> None:
    assert terms_in(sent, opened(ANA)) == meant
    assert terms_in(terms_out(meant), opened(ANA)) == meant


@pytest.mark.parametrize("terms", [Terms(), Terms(retries=2), Terms(reruns=5), Terms(retries=1, reruns=2)])
def test_an_older_server_is_told_whether_a_job_may_be_rerun_at_all(terms: Terms) -> None:
    sent = JobSubmission(canonical="{}", terms=terms).terms_message()
    assert terms_in(sent, opened(ANA)) == terms
    assert sent.delivery == ("at-least-once" if terms.reruns else "at-most-once")


@pytest.mark.parametrize(("terms", "guard"), [(Terms(retries=2), None), (Terms(reruns=1), GUARD)])
def test_an_agent_guards_what_has_reruns(terms: Terms, guard: float | None) -> None:
    job = Job(id=1, owner="ana", name="job", state=JobState.BOUND, spec="{}", terms=terms, attempt=1)
    attempt = Attempt(job=1, n=1, cluster="east", token="t", state=AttemptState.LEASED, created_at=0.0)
    sent = offer_of(attempt, job, 0.0).terms
    assert Offer(ref=AttemptRef(1, 1, "t"), terms=sent).guard(GUARD) == guard

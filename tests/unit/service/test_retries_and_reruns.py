"""What a further attempt costs: a retry after a known failure, a rerun after an unknown outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.job import Delivery, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import Report
from rainbow_sched.service.assembly import Service
from rainbow_sched.service.views import jobs
from tests.support.agents import Agent
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_service, a_submission, submit, with_cluster


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with a_service(tmp_path, clock=ManualClock()) as made:
        await with_cluster(made, "east")
        yield made


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (Terms(), JobState.FAILED),
        (Terms(delivery=Delivery.AT_LEAST_ONCE), JobState.FAILED),
        (Terms(reruns=5), JobState.FAILED),
        (Terms(delivery=Delivery.AT_LEAST_ONCE, retries=1), JobState.BOUND),
        (Terms(retries=1), JobState.BOUND),
        (Terms(retries=1, before_reruns=True), JobState.FAILED),
        (Terms(retries=1, before_reruns=True, delivery=Delivery.AT_LEAST_ONCE), JobState.BOUND),
    ],
    ids=["once", "at least once", "reruns", "both", "retries", "older, once", "older, both"],
)
async def test_a_failed_run_is_repeated_only_by_its_owners_word(
    service: Service, terms: Terms, expected: JobState
) -> None:
    await with_cluster(service, "west")
    [job] = await submit(service, a_submission(terms=terms))
    agent = Agent(service, "east")
    ref = await agent.runs()
    report = Report(ref=ref, state=AttemptState.FAILED, exit_code=3, failure=Failure.EXIT)
    await agent.says(reports=(report,))
    await service.scheduling_loop.decide_pending()
    view = await jobs.get(service.core, job.id, ADMIN)
    assert view.job.state is expected
    if expected is JobState.FAILED:
        assert view.job.exit_code == 3


UNKNOWN_OUTCOMES = [
    (AttemptState.PREEMPTED, None),
    (AttemptState.FAILED, Failure.UNKNOWN),
    (AttemptState.FAILED, Failure.NODE),
]
KNOWN_FAILURES = [
    (AttemptState.FAILED, failure)
    for failure in Failure
    if failure not in (Failure.UNKNOWN, Failure.NODE, Failure.LOST)
]


@pytest.mark.parametrize(
    ("terms", "repeats_known", "repeats_unknown"),
    [
        (Terms(), 0, 0),
        (Terms(retries=2), 2, 0),
        (Terms(reruns=2), 0, 2),
        (Terms(retries=1, reruns=2), 1, 2),
    ],
    ids=["neither", "retries", "reruns", "both"],
)
@pytest.mark.parametrize(("state_told", "failure"), [*UNKNOWN_OUTCOMES, *KNOWN_FAILURES])
async def test_known_failures_use_retries_and_unknown_outcomes_reruns(
    service: Service,
    terms: Terms,
    repeats_known: int,
    repeats_unknown: int,
    state_told: AttemptState,
    failure: Failure | None,
) -> None:
    clock = service.core.clock
    assert isinstance(clock, ManualClock)
    known = (state_told, failure) in KNOWN_FAILURES
    repeats = repeats_known if known else repeats_unknown
    [job] = await submit(service, a_submission(terms=terms))
    agent = Agent(service, "east")
    for n in range(1, repeats + 2):
        ref = await agent.runs()
        assert ref.n == n
        await agent.says(reports=(Report(ref=ref, state=state_told, failure=failure),))
        clock.advance(3_600.0)  # a cluster that could not start it is not asked for a while
        service.core.pending.changed()
        await service.scheduling_loop.decide_pending()
    ended = (await jobs.get(service.core, job.id, ADMIN)).job
    assert (ended.state, ended.attempt) == (JobState.FAILED, repeats + 1)
    assert (ended.failures, ended.reruns_used) == ((repeats, 0) if known else (0, repeats))

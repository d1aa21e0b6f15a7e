"""Each check of the witness notices the smallest history that breaks its promise, and leaves good ones alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.job import Delivery, Event, Job, Terms
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.simulation import invariants as i
from rainbow_sched.simulation.witness import GroundTruth, JobChange, Lease, Witness

JOB = Job(id=1, owner="ana", name="job", state=JobState.BOUND, spec="{}", attempt=1)
ATTEMPT = Attempt(job=1, n=1, cluster="east", token="t1", state=AttemptState.RUNNING, created_at=0.0)
SUCCEEDED = Result(state=AttemptState.SUCCEEDED)


def a_witness() -> Witness:
    witness = Witness(
        truth=GroundTruth(),
        rules=i.RULES,
        now=lambda: 100.0,
        note=lambda *_: None,
        stop=lambda: None,
        lease=8.0,
        run_lease=24.0,
        capacity={"east": 4},
    )
    witness.jobs[1], witness.attempts[1] = JOB, (ATTEMPT,)
    return witness


def a_change(*, before: Job | None = JOB, job: Job = JOB, old: tuple = (ATTEMPT,), new: tuple = (ATTEMPT,), events=()):
    return JobChange(before=before, job=job, attempts_before=old, attempts=new, events=tuple(events))


def ended(state: AttemptState, **changes: object) -> JobChange:
    return a_change(new=(replace(ATTEMPT, state=state, **changes),))


def an_event(kind: JobEvent, state: JobState) -> Event:
    return Event(seq=1, job=1, at=0.0, kind=kind, state=state)


def test_a_change_that_keeps_every_promise_is_left_alone() -> None:
    events = [an_event(JobEvent.UPDATED, JobState.BOUND)]
    for rule in i.RULES.on_change:
        assert rule(a_witness(), a_change(events=events)) is None, rule.__doc__


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (i.i1_requests_never_change, a_change(job=replace(JOB, spec="[]"))),
        (i.i4_fences_increase, a_change(new=(replace(ATTEMPT, n=2),))),
        (i.i4_fences_increase, a_change(new=(ATTEMPT, replace(ATTEMPT, n=2)), job=replace(JOB, attempt=2))),
        (i.i4_ended_attempts_stay, a_change(old=(replace(ATTEMPT, state=AttemptState.FAILED),))),
        (i.i4_ended_attempts_stay, a_change(new=(replace(ATTEMPT, state=AttemptState.LEASED),))),
        (i.i4_live_attempts_belong, a_change(job=replace(JOB, state=JobState.QUEUED))),
        (i.i4_ends_are_true, ended(AttemptState.SUCCEEDED)),
        (i.i4_ends_are_true, ended(AttemptState.FAILED, failure=Failure.EXIT)),
        (
            i.i5_one_end,
            a_change(before=replace(JOB, state=JobState.FAILED), events=[an_event(JobEvent.BOUND, JobState.BOUND)]),
        ),
        (i.i6_steps_are_in_the_table, a_change(events=[an_event(JobEvent.HELD, JobState.HELD)])),
        (i.i6_steps_are_in_the_table, a_change(job=replace(JOB, state=JobState.QUEUED))),
        (i.i8_budgets_hold, a_change(job=replace(JOB, failures=1))),
    ],
)
def test_a_change_that_breaks_a_promise_is_noticed(rule, change: JobChange) -> None:
    assert rule(a_witness(), change) is not None


@pytest.mark.parametrize("state", [AttemptState.RETURNED, AttemptState.LAPSED, AttemptState.CANCELLED])
def test_an_attempt_that_ended_does_not_run(state: AttemptState) -> None:
    witness = a_witness()
    witness.truth.launch(1, 1, "east", 1.0)
    assert i.i4_ends_are_true(witness, ended(state)) is not None
    assert i.i9_ended_jobs_do_not_run(witness, a_change(job=replace(JOB, state=JobState.CANCELLED))) is not None


def test_a_job_that_ran_once_may_be_launched_again_only_by_its_owners_word() -> None:
    witness = a_witness()
    run = witness.truth.launch(1, 1, "east", 1.0)
    assert i.i3_one_run_at_a_time(witness, 1, 1, "east") is not None
    run.result = SUCCEEDED
    assert i.i3_one_run_at_a_time(witness, 1, 1, "east") is None
    assert i.i3a_at_most_once(witness, 1, 1, "east") is not None
    witness.jobs[1] = replace(JOB, terms=Terms(delivery=Delivery.AT_LEAST_ONCE))
    assert i.i3a_at_most_once(witness, 1, 1, "east") is None


@pytest.mark.parametrize(
    ("result", "again"),
    [
        (Result(state=AttemptState.FAILED, failure=Failure.EXIT, exit_code=1), True),
        (Result(state=AttemptState.FAILED, failure=Failure.NODE), False),
        (Result(state=AttemptState.PREEMPTED), False),
    ],
)
def test_a_job_without_reruns_is_launched_again_only_after_a_known_failure(result: Result, again: bool) -> None:
    witness = a_witness()
    witness.jobs[1] = replace(JOB, terms=Terms(retries=5))
    witness.truth.launch(1, 1, "east", 1.0).result = result
    assert (i.i3a_at_most_once(witness, 1, 2, "west") is None) == again


def test_a_job_is_launched_no_more_often_than_its_retries_and_reruns_allow() -> None:
    witness = a_witness()
    witness.jobs[1] = replace(JOB, terms=Terms(retries=1, reruns=1))
    for n in (1, 2, 3):
        assert i.i8_runs_are_bounded(witness, 1, n, "east") is None
        witness.truth.launch(1, n, "east", 1.0).result = SUCCEEDED
    assert i.i8_runs_are_bounded(witness, 1, 4, "east") is not None


LOST = {"state": AttemptState.LOST, "failure": Failure.LOST}
FAILED = {"state": AttemptState.FAILED, "failure": Failure.EXIT}


@pytest.mark.parametrize(
    ("terms", "end", "noticed"),
    [
        (Terms(), LOST, False),
        (Terms(reruns=1), {**LOST, "guarded": True}, True),
        (Terms(reruns=1), LOST, False),
        (Terms(retries=1), {**LOST, "guarded": True}, False),
        (Terms(retries=1), FAILED, True),
        (Terms(reruns=1), FAILED, False),
    ],
)
def test_a_job_that_fails_with_further_runs_left_is_noticed(
    terms: Terms, end: dict[str, object], noticed: bool
) -> None:
    witness = a_witness()
    attempt = replace(ATTEMPT, **end)  # type: ignore[arg-type]
    change = a_change(job=replace(JOB, state=JobState.FAILED, terms=terms), new=(attempt,))
    witness._take(change)
    assert (i.i8_further_runs_are_made(witness, change) is not None) == noticed


@pytest.mark.parametrize("state", [AttemptState.OFFERED, AttemptState.LEASED, AttemptState.WITHDRAWN])
def test_only_a_confirmed_attempt_is_launched_and_only_where_it_was_sent(state: AttemptState) -> None:
    witness = a_witness()
    assert i.i4_launches_are_confirmed(witness, 1, 1, "east") is None
    assert i.i4_launches_are_confirmed(witness, 1, 1, "west") is not None
    witness.attempts[1] = (replace(ATTEMPT, state=state),)
    assert i.i4_launches_are_confirmed(witness, 1, 1, "east") is not None


def test_a_job_runs_only_on_hosts_that_meet_what_it_requires() -> None:
    witness = a_witness()
    assert i.r13_jobs_run_where_they_were_matched(witness, 1, "east", "d0") is None
    witness.hosts_of = lambda job, cluster: {"east": ("d1", "d2")}[cluster]
    assert i.r13_jobs_run_where_they_were_matched(witness, 1, "east", "d1") is None
    assert i.r13_jobs_run_where_they_were_matched(witness, 1, "east", "d0") is not None


def test_a_run_is_killed_only_with_a_cause() -> None:
    witness = a_witness()
    assert i.i16_nobody_is_killed_without_cause(witness, 1, 1, "east") is not None
    witness.jobs[1] = replace(JOB, state=JobState.CANCELLING)
    assert i.i16_nobody_is_killed_without_cause(witness, 1, 1, "east") is None


def test_a_lease_neither_ends_early_nor_lasts_for_ever() -> None:
    witness = a_witness()
    witness.server_since, witness.fences["t1"] = 0.0, (1, 1)
    witness.leases["t1"] = Lease(95.0, 103.0, "e1")
    assert i.i15_leases_lapse(witness) is None
    assert i.i15_leases_last(witness, ended(AttemptState.LAPSED)) is not None
    witness.leases["t1"] = Lease(80.0, 88.0, "e1")
    assert i.i15_leases_lapse(witness) is not None
    assert i.i15_leases_last(witness, ended(AttemptState.LAPSED)) is None


def test_no_more_is_given_away_than_there_is() -> None:
    witness = a_witness()
    witness.allocated["east"] = {"t1": 3, "t2": 2}
    assert i.i11_nothing_is_given_twice(witness, a_change()) is not None


def test_an_acknowledged_job_that_is_not_stored_is_noticed() -> None:
    witness = a_witness()
    witness.submitted("ana", "token", 1, "{}")
    assert witness.violation is None
    witness.submitted("ana", "token", 2, "{}")
    assert witness.violation is not None
    assert "I1" in witness.violation.rule

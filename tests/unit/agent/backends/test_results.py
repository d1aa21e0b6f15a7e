"""Every result that a backend can make of what its manager says is one that the server understands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.common.batch_script import ScriptExit
from rainbow_sched.agent.backends.flux import jobs as flux_jobs
from rainbow_sched.agent.backends.local.files import _FAILURES, _STATES, JobFiles
from rainbow_sched.agent.backends.local.wrapper import EXIT, write_whole
from rainbow_sched.agent.backends.slurm import jobs as slurm_jobs
from rainbow_sched.agent.backends.slurm.files import SlurmFiles, withdrawn
from rainbow_sched.agent.core.mailbox import last_report
from rainbow_sched.agent.core.manager import OUTCOME_UNKNOWN
from rainbow_sched.agent.core.values import LocalAttempt, Result
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.protocol.codec import request_from_proto, request_to_proto
from rainbow_sched.protocol.messages import AttemptRef, Offer, SyncMessage, SyncRequest

TIMES = st.one_of(st.none(), st.floats(1.0, 2e9))
CODES = st.integers(0, 255)


def understood(result: Result) -> None:
    report = last_report(LocalAttempt(offer=Offer(ref=AttemptRef(1, 1, "t")), result=result))
    request = SyncRequest(message=SyncMessage(seq=1, reports=(report,)), cluster="east", epoch="e.1")
    read = request_from_proto(request_to_proto(request)).message
    assert read.unknown == (), read.unknown
    assert (read.reports[0].state, read.reports[0].failure) == (result.state, result.failure)


@given(
    job=st.builds(
        slurm_jobs.SlurmJob,
        native=st.just("1"),
        user=st.just(0),
        state=st.sampled_from(sorted(slurm_jobs.ENDED)),
        started=TIMES,
        ended=TIMES,
        code=CODES,
        signal=st.integers(0, 127),
    ),
    left=st.one_of(
        st.none(),
        st.builds(ScriptExit, code=CODES, started=TIMES, ended=TIMES, cause=st.just("exit")),
        st.builds(ScriptExit, code=st.sampled_from((124, 137)), cause=st.just("time-limit")),
        st.builds(ScriptExit, code=st.sampled_from((126, 127)), cause=st.sampled_from(("cwd", "launch"))),
    ),
    over_memory=st.booleans(),
)
def test_whatever_slurm_says(job: slurm_jobs.SlurmJob, left: ScriptExit | None, over_memory: bool) -> None:
    understood(slurm_jobs.result(job, left, over_memory=over_memory))


@given(
    job=st.builds(
        flux_jobs.FluxJob,
        id=st.just(1),
        name=st.just("rb-1-1"),
        state=st.just("INACTIVE"),
        result=st.sampled_from(("COMPLETED", "FAILED", "CANCELED", "TIMEOUT", "")),
        code=st.one_of(st.none(), st.integers(-255, 255)),
        started=TIMES,
        ended=TIMES,
        exception=st.sampled_from(("", "timeout", "cancel", "exec", "alloc", "depend", "validate", "node")),
        note=st.sampled_from(("", "node failure", "out of memory", "lost contact", "flood")),
    ),
    limit=TIMES,
    problem_text=st.sampled_from(("", "no such command")),
    began=st.booleans(),
)
def test_whatever_flux_says(job: flux_jobs.FluxJob, limit: float | None, problem_text: str, began: bool) -> None:
    understood(flux_jobs.result(job, limit=limit, problem_text=problem_text, began=began))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cause=st.sampled_from(["exit", *_FAILURES, *_STATES]), code=st.one_of(st.none(), CODES), started=TIMES)
def test_whatever_the_runner_of_this_machine_leaves(
    tmp_path: Path, cause: str, code: int | None, started: float | None
) -> None:
    never_ran = cause in ("no-room", "wrong-nodes")
    if never_ran or (code is None) != (cause in ("cancelled", "out-of-touch")):
        code = None if never_ran else 1
    files = JobFiles(tmp_path, "rb-1-1")
    files.path.mkdir(exist_ok=True)
    write_whole(
        files.path / EXIT,
        {"code": code, "cause": cause, "reason": "so", "started": started, "ended": 5.0},
        safe=False,
    )
    left = files.left()
    assert left is not None
    understood(left)


@pytest.mark.parametrize("asked", [False, True])
def test_a_job_that_slurm_took_and_lost(tmp_path: Path, asked: bool) -> None:
    files = SlurmFiles(tmp_path, "rb-1-1")
    files.path.mkdir()
    if asked:
        files.request_end()
    result = withdrawn(files).result
    assert result is not None
    assert result.state is (AttemptState.CANCELLED if asked else AttemptState.RETURNED)
    understood(result)


def test_an_outcome_that_nobody_knows() -> None:
    understood(OUTCOME_UNKNOWN)

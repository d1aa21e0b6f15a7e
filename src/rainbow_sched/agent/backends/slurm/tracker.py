"""Recognize an attempt's Slurm job, and combine Slurm's state with the job's own files."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.agent.backends.common.batch_script import ALREADY_RAN, WITHDRAWN
from rainbow_sched.agent.backends.common.host_binding import wrong_nodes
from rainbow_sched.agent.backends.slurm.files import SlurmFiles, SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, read_comment, result
from rainbow_sched.agent.core.values import Phase, Result, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES

CLOCK_SKEW_SECONDS = 120.0  # seconds that the clocks of agent and controller may differ
SETTLE_SECONDS = 60.0  # seconds in which a lost job may still write its exit code
LOST_JOB_SECONDS = 3600.0  # seconds until a lost job without a limit is considered ended


def same_submission(job: SlurmJob, record: SlurmRecord) -> bool:
    """Return True if we submitted this job, by its key, or by its time where a site rewrites comments."""
    comment = read_comment(job.comment)
    if comment is not None:
        return comment.key == record.key
    return job.submitted is None or job.submitted >= record.asked - CLOCK_SKEW_SECONDS


def update_of(files: SlurmFiles, job: SlurmJob | None, now: float) -> Update | None:
    """Return the attempt's state; None if neither Slurm nor the files have it."""
    left = files.left()
    if left is not None and left.cause == WRONG_NODES:
        native = job.id if job is not None else files.begun() or ""
        return _never_ran(files, native, wrong_nodes(files.nodes(), files.recorded().allowed, "Slurm", left.ended))
    if job is None:
        native = files.begun() or ""
        if native == WITHDRAWN:
            return withdrawn(files)
        if left is None:
            return None
        ended, sizes = _explained(left.result(), files), files.sizes()
        return Update(tag=files.tag, phase=Phase.ENDED, native=native, result=ended, sizes=sizes, nodes=files.nodes())
    found = Update(tag=files.tag, phase=job.phase, native=job.id, sizes=files.sizes())
    if job.phase is not Phase.SUBMITTED:
        found = replace(found, nodes=job.whole_node_list or files.nodes())
    if job.phase is Phase.RUNNING:
        return replace(found, started_at=job.started)
    if job.phase is Phase.ENDED:
        if left is None and job.code == ALREADY_RAN:
            return _ran_before(found, job, now)
        if left is not None and left.code == 0 and not files.end_requested():
            ended = left.result()  # it succeeded, even if a restarted controller reports something else
        else:
            ended = _explained(result(job, left, over_memory=files.over_memory()), files)
        return replace(found, started_at=job.started, result=ended)
    return found


def withdrawn(files: SlurmFiles) -> Update:
    """Return the end of a job that Slurm lost before it started and that can no longer start."""
    ended = Result(state=AttemptState.RETURNED, reason="Slurm accepted the job and lost it before it started")
    return _never_ran(files, files.recorded().native, ended)


def _never_ran(files: SlurmFiles, native: str, ended: Result) -> Update:
    """Return the end of a job whose command was not started: as given, or cancelled if Rainbow ended it."""
    if files.end_requested():
        ended = Result(state=AttemptState.CANCELLED, reason="cancelled before it began", ended_at=ended.ended_at)
    return Update(tag=files.tag, phase=Phase.ENDED, native=native, result=ended, nodes=files.nodes())


def _ran_before(found: Update, job: SlurmJob, now: float) -> Update | None:
    """Return the end of a job that Slurm started a second time after losing its state.

    None while the first run may still write its exit code.
    """
    if now < (job.ended or now) + SETTLE_SECONDS:
        return None
    reason = "Slurm started it twice; it ran once, and its first run left no exit code"
    return replace(found, result=Result(state=AttemptState.FAILED, failure=Failure.UNKNOWN, reason=reason))


def _explained(ended: Result, files: SlurmFiles) -> Result:
    """Add to the reason what the job's files say."""
    found = files.explain(ended)
    if found == ended and ended.state is AttemptState.CANCELLED and not files.end_requested():
        return replace(ended, reason="cancelled in Slurm (scancel or controller), not by Rainbow")
    return found


def overdue(files: SlurmFiles, now: float) -> bool:
    """Return True if a lost job must have ended by its limit."""
    began, limit = files.begun_at(), files.recorded().duration
    return began is None or now > began + (LOST_JOB_SECONDS if limit is None else limit) + CLOCK_SKEW_SECONDS

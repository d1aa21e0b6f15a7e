"""Invariants that are checked after every step, one function per promise, independent of the implementation.

Each function returns None or a sentence that describes the violation. Its docstring is the promise.
"""

from __future__ import annotations

from rainbow_sched.model.attempt import LIVE, Attempt, AttemptState, Failure
from rainbow_sched.model.job import Delivery, Event
from rainbow_sched.model.job_state import TRANSITIONS, JobEvent, JobState
from rainbow_sched.service.lifecycle import SUPERSEDED
from rainbow_sched.service.maintenance.restore import WITHOUT_REPORT
from rainbow_sched.simulation.witness import KNOWN, Invariants, JobChange, Witness, known_failure, unknown_outcome

S = AttemptState
NEVER_RAN = frozenset({S.WITHDRAWN, S.RETURNED, S.LAPSED})
SLACK = 5.0  # seconds for timers, pauses and messages in transit


def i1_requests_never_change(world: Witness, change: JobChange) -> str | None:
    """I1 a stored request never changes."""
    if change.before is not None and change.before.spec != change.job.spec:
        return f"job {change.job.id} asks for something else now"
    return None


def i2_one_job_per_token(world: Witness, change: JobChange) -> str | None:
    """I2 one job per client token."""
    job = change.job
    if change.before is None and job.client_token:
        first = world.by_token.setdefault((job.owner, job.client_token), job.id)
        if first != job.id:
            return f"token {job.client_token} made job {first} and job {job.id}"
    return None


def i4_fences_increase(world: Witness, change: JobChange) -> str | None:
    """I4 attempts are numbered without gaps, fences are never reused, and only the newest attempt lives."""
    for number, attempt in enumerate(change.attempts, start=1):
        if attempt.n != number and not world.is_old(attempt.job):
            return f"job {change.job.id} has attempt {attempt.n} where {number} was due"
        owner = world.fences.setdefault(attempt.token, (attempt.job, attempt.n))
        if owner != (attempt.job, attempt.n):
            return f"fence {attempt.token} belongs to {owner} and to {(attempt.job, attempt.n)}"
        if attempt.state.live and attempt.n != change.job.attempt:
            return f"attempt {attempt.n} of job {attempt.job} lives beside attempt {change.job.attempt}"
    return None


def i4_numbers_are_given_once(world: Witness, change: JobChange) -> str | None:
    """I4 no id is given to two jobs, and no tag to two attempts, also not in histories that are lost."""
    job = change.job
    if change.before is None and job.id in world.lost and not job.terms.from_agent:
        return f"id {job.id} was given before the restore"
    for attempt in change.attempts:
        token = world.tags.setdefault((attempt.job, attempt.n), attempt.token)
        if token != attempt.token:
            return f"attempt {attempt.n} of job {attempt.job} has fence {attempt.token}, and had {token} before"
    return None


def i4_ended_attempts_stay(world: Witness, change: JobChange) -> str | None:
    """I4 an attempt that has ended changes no more, except that a lost one may be found."""
    for old, new in zip(change.attempts_before, change.attempts, strict=False):
        if not old.state.live and old.state is not S.LOST and old != new:
            return f"attempt {old.n} of job {old.job} was {old.state}, and is now {new.state}"
        if old.state.live and new.state.live and LIVE.index(new.state) < LIVE.index(old.state):
            return f"attempt {old.n} of job {old.job} went back from {old.state} to {new.state}"
    return None


def i4_ends_are_true(world: Witness, change: JobChange) -> str | None:
    """I4 a report that is believed tells of what that very attempt did."""
    for attempt in change.ended():
        # After a restore, an attempt is closed for a newer one, or because its cluster was given up.
        guessed = world.is_old(attempt.job) and (attempt.state is S.LOST or attempt.reason == WITHOUT_REPORT)
        wrong = None if guessed else _untrue(world, attempt)
        if wrong:
            return f"attempt {attempt.n} of job {attempt.job} is {attempt.state} on {attempt.cluster}, but {wrong}"
    return None


def _untrue(world: Witness, attempt: Attempt) -> str | None:
    runs = [run for run in world.truth.of(attempt.job, attempt.n) if run.cluster == attempt.cluster]
    if attempt.state in NEVER_RAN:
        return "it was launched" if runs else None
    if attempt.state is S.HANDED_OFF or (attempt.state is S.LOST and not attempt.guarded):
        return None
    if any(run.result is None for run in runs):
        return "it is running"
    results = [run.result for run in runs if run.result is not None]
    if attempt.state is S.SUCCEEDED:
        return None if any(result.state is S.SUCCEEDED for result in results) else "no run of it succeeded"
    if attempt.failure in (Failure.LAUNCH, Failure.REFUSED):
        return "it was launched" if runs else None
    if attempt.state is S.FAILED and attempt.failure is not Failure.UNKNOWN:
        return None if any(result.failure is attempt.failure for result in results) else "no run of it failed so"
    return None


def i4_live_attempts_belong(world: Witness, change: JobChange) -> str | None:
    """I4 a job has a live attempt exactly while it is bound."""
    live = sum(attempt.state.live for attempt in change.attempts)
    bound = change.job.state in (JobState.BOUND, JobState.CANCELLING)
    if live != int(bound):
        return f"job {change.job.id} is {change.job.state} with {live} live attempts"
    return None


def i5_one_end(world: Witness, change: JobChange) -> str | None:
    """I5 a job ends once, and its end never changes."""
    state = change.before.state if change.before is not None else None
    for event in change.events:
        if state is not None and state.terminal:
            return f"job {change.job.id} was {state}; then came {event.kind}"
        state = event.state
    return None


def i6_steps_are_in_the_table(world: Witness, change: JobChange) -> str | None:
    """I6 every step is in the table, and the state is what the events add up to."""
    state = change.before.state if change.before is not None else None
    for event in change.events:
        following = _after(state, event)
        if following is None or following is not event.state:
            return f"job {change.job.id} was {state}; {event.kind} made it {event.state}"
        state = following
    if state is not change.job.state:
        return f"job {change.job.id} is {change.job.state}; its events add up to {state}"
    return None


def _after(state: JobState | None, event: Event) -> JobState | None:
    if state is None:
        return JobState.QUEUED if event.kind is JobEvent.SUBMITTED else None
    if event.kind is JobEvent.UPDATED:
        return None if state.terminal else state
    return TRANSITIONS.get((state, event.kind))


def i8_budgets_hold(world: Witness, change: JobChange) -> str | None:
    """I8 a job goes on after no more known failures than it has retries, and no more unknown outcomes than reruns."""
    job = change.job
    if job.state.terminal or world.is_old(job.id):
        return None
    numbers = (
        (world.known_failures[job.id], job.failures, job.terms.retries, "known failures"),
        (world.unknown_outcomes[job.id], job.reruns_used, job.terms.reruns, "unknown outcomes"),
    )
    for happened, counted, allowed, what in numbers:
        if happened > allowed:
            return f"job {job.id} goes on after {happened} {what}; its owner allowed {allowed}"
        if happened != counted:
            return f"job {job.id} had {happened} {what} and counts {counted}"
    return None


def i8_further_runs_are_made(world: Witness, change: JobChange) -> str | None:
    """I8 a job does not fail while its owner allows another run after how its attempt ended."""
    job = change.job
    if job.state is not JobState.FAILED or change.before is None or change.before.state is not JobState.BOUND:
        return None
    if world.is_old(job.id):  # further runs that a restore has lost count as used
        return None
    for attempt in change.ended():
        known, unknown = known_failure(attempt), unknown_outcome(attempt) and not world.given_up(job.id, attempt.n)
        if known and world.known_failures[job.id] <= job.terms.retries:
            return f"job {job.id} failed with retries left: {job.terms.retries} for {attempt.failure}"
        if unknown and world.unknown_outcomes[job.id] <= job.terms.reruns:
            return f"job {job.id} failed with reruns left: {job.terms.reruns} for {attempt.state}"
    return None


def i8_runs_are_bounded(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I8 a job runs at most once and once more for each retry and each rerun."""
    terms, runs = world.terms(job), len(world.truth.of(job))
    if runs > terms.retries + terms.reruns:
        return f"job {job} starts for the {runs + 1}th time; its owner allowed {terms.retries} and {terms.reruns} more"
    return None


def i9_ended_jobs_do_not_run(world: Witness, change: JobChange) -> str | None:
    """I9 a job that has ended does not run."""
    if change.job.state.terminal and change.job.state is not JobState.HANDED_OFF:
        live = [run for run in world.truth.live(change.job.id) if not world.given_up(run.job, run.n)]
        if world.is_old(change.job.id):
            live = [run for run in live if run.cluster not in world.awaited]
        if live:
            return f"job {change.job.id} is {change.job.state} and runs on {live[0].cluster}"
    return None


def i11_nothing_is_given_twice(world: Witness, change: JobChange) -> str | None:
    """I11 no cluster is given more than it has."""
    if world.restored:  # what was given away in a history that is lost runs on
        return None
    for cluster, capacity in world.capacity.items():
        total = sum(world.allocated.get(cluster, {}).values())
        if total > capacity:
            return f"{cluster} has {capacity} cores, and {total} are given away"
    return None


def waits_are_kept(world: Witness, change: JobChange) -> str | None:
    """A job is given to a cluster only when what it waits for has come."""
    if world.is_old(change.job.id):
        return None
    if change.job.state is not JobState.BOUND or all(event.kind is not JobEvent.BOUND for event in change.events):
        return None
    for dependency in world.waits_for[change.job.id]:
        on = world.jobs[dependency.job]
        good = on.state in (JobState.SUCCEEDED, JobState.HANDED_OFF)
        came = {
            "after": on.state.terminal or on.started_at is not None,
            "afterany": on.state.terminal,
            "afterok": good,
            "afternotok": on.state.terminal and not good,
        }
        if not came[dependency.kind]:
            return f"job {change.job.id} waits for {dependency.kind}:{on.id}, which is {on.state}, and was given away"
    at = change.job.terms.start_after
    if at is not None and world.steady and max(event.at for event in change.events) < at - 0.001:
        return f"job {change.job.id} was to wait for its start time and was given away"
    return None


def i15_leases_last(world: Witness, change: JobChange) -> str | None:
    """I15 a lease lasts as long as it was given for, whatever the clock does and however often the server starts."""
    for attempt in change.ended():
        lease = world.leases.pop(attempt.token, None)
        if attempt.state is not S.LAPSED or lease is None:
            continue
        lasted = world.now() - lease.given
        if lasted < world.lease - 0.1:
            return f"the lease of job {attempt.job} lapsed after {lasted:.1f} s of {world.lease:g}"
        if world.server_since is None or world.now() - world.server_since < world.lease - 0.1:
            return f"the lease of job {attempt.job} lapsed right after the server's own downtime"
    return None


def i15_leases_lapse(world: Witness) -> str | None:
    """I15 a lease that nobody accepts lapses, whatever the wall clock does."""
    if world.server_since is None or world.disk_since is None:
        return None
    counted_from = max(world.server_since, world.disk_since)
    for token, lease in world.leases.items():
        age = world.now() - max(lease.given, counted_from)
        if age > world.lease + SLACK:
            return f"the lease of attempt {world.fences[token]} is {age:.1f} s old and was given for {world.lease:g}"
    return None


def i3_one_run_at_a_time(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I3 a job never runs twice at a time."""
    live = world.truth.live(job)
    if live:
        return f"job {job} starts on {cluster} while attempt {live[0].n} runs on {live[0].cluster}"
    return None


def i3a_at_most_once(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I3a an at-most-once job is launched again only if every run before certainly failed."""
    if world.terms(job).delivery is Delivery.AT_LEAST_ONCE:
        return None
    for run in world.truth.of(job):
        if run.result is None or run.result.state is not S.FAILED or run.result.failure not in KNOWN:
            return f"job {job} starts on {cluster}, and its run on {run.cluster} did not certainly fail"
    return None


def i4_launches_are_confirmed(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I4 only a live, confirmed attempt is launched, and only on its own cluster."""
    if world.is_old(job) and cluster in world.awaited:
        return None
    attempt = world.attempt(job, n)
    if attempt is None or attempt.cluster != cluster:
        return f"attempt {n} of job {job} starts on {cluster}, where it was never sent"
    if attempt.state not in LIVE[2:] and not world.given_up(job, n):
        return f"attempt {n} of job {job} starts on {cluster} while it is {attempt.state}"
    return None


def r13_jobs_run_where_they_were_matched(world: Witness, job: int, cluster: str, host: str) -> str | None:
    """R13 a job runs only on hosts that meet what it requires."""
    allowed = world.hosts_of(world.jobs.get(job) or world.lost[job], cluster)
    if allowed and host not in allowed:
        return f"job {job} starts on {host} of {cluster}; what it requires is on {', '.join(sorted(allowed))}"
    return None


def i9_cancelled_is_cancelled(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I9 nothing is launched for a job that has ended."""
    if world.is_old(job) and cluster in world.awaited:
        return None
    if world.jobs[job].state.terminal and not world.given_up(job, n):
        return f"job {job} starts on {cluster} and is {world.jobs[job].state}"
    return None


def i16_nobody_is_killed_without_cause(world: Witness, job: int, n: int, cluster: str) -> str | None:
    """I16 a run is killed only if it was cancelled, is no longer counted on, or lost touch for too long."""
    attempt = world.attempt(job, n)
    stored = world.jobs.get(job)
    if stored is None or attempt is None or not attempt.state.live or stored.state is JobState.CANCELLING:
        return None
    before = world.lost.get(job)
    if before is not None and (before.state.terminal or before.state is JobState.CANCELLING):
        return None  # it was cancelled in the history that is lost
    terms = world.terms(job)
    if (job, n) in world.excused and (terms.lost_after or terms.delivery is Delivery.AT_LEAST_ONCE):
        return None
    return f"attempt {n} of job {job} is killed on {cluster} while it is {attempt.state}"


def r7_silence_is_long(world: Witness, change: JobChange) -> str | None:
    """R7 a run is given up only when its cluster was silent for as long as its owner would wait."""
    for attempt in change.ended():
        if attempt.state is S.LOST and attempt.reason != SUPERSEDED:
            silent = world.now() - max(world.heard.get(attempt.cluster, 0.0), world.server_since or 0.0)
            if silent < world.patience(attempt) - 0.1:
                return f"attempt {attempt.n} of job {attempt.job} is lost after {silent:.1f} s of silence"
    return None


RULES = Invariants(
    on_change=(
        i1_requests_never_change,
        i2_one_job_per_token,
        i5_one_end,
        i6_steps_are_in_the_table,
        i4_fences_increase,
        i4_numbers_are_given_once,
        i4_ended_attempts_stay,
        i4_live_attempts_belong,
        i4_ends_are_true,
        i8_budgets_hold,
        i8_further_runs_are_made,
        i9_ended_jobs_do_not_run,
        i11_nothing_is_given_twice,
        waits_are_kept,
        i15_leases_last,
        r7_silence_is_long,
    ),
    on_launch=(
        i3_one_run_at_a_time,
        i3a_at_most_once,
        i8_runs_are_bounded,
        i4_launches_are_confirmed,
        i9_cancelled_is_cancelled,
    ),
    on_host=(r13_jobs_run_where_they_were_matched,),
    on_kill=(i16_nobody_is_killed_without_cause,),
    on_second=(i15_leases_lapse,),
)

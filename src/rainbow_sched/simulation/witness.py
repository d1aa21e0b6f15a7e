"""Check every commit, launch, kill and acknowledgement of a world against its true history and the invariants."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import LIVE, Attempt, AttemptState, Failure
from rainbow_sched.model.generation import MIN_SKIPPED_IDS
from rainbow_sched.model.job import Delivery, Event, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store.base import Dependency, JobSelection, ReportState, Tx

MAX_EVENTS_PER_READ = 10_000
KNOWN = frozenset({Failure.EXIT, Failure.TIME_LIMIT, Failure.MEMORY, Failure.LAUNCH, Failure.REFUSED})


@dataclass(slots=True)
class ActualRun:
    """A launch of an attempt."""

    job: int
    n: int
    cluster: str
    started: float
    host: str = ""
    result: Result | None = None  # None: it still runs
    output: bytes = b""


@dataclass(slots=True)
class GroundTruth:
    """Every launch and every end on every cluster, by job."""

    runs: dict[int, list[ActualRun]] = field(default_factory=lambda: defaultdict(list))

    def launch(self, job: int, n: int, cluster: str, now: float, host: str = "") -> ActualRun:
        run = ActualRun(job, n, cluster, now, host)
        self.runs[job].append(run)
        return run

    def all(self) -> list[ActualRun]:
        return [run for runs in self.runs.values() for run in runs]

    def of(self, job: int, n: int | None = None) -> list[ActualRun]:
        """Return the runs of a job or of one of its attempts."""
        return [run for run in self.runs.get(job, ()) if n is None or run.n == n]

    def live(self, job: int, n: int | None = None) -> list[ActualRun]:
        """Return the runs that have not ended."""
        return [run for run in self.of(job, n) if run.result is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """The change of one job in one commit."""

    before: Job | None
    job: Job
    attempts_before: tuple[Attempt, ...]
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]

    def ended(self) -> list[Attempt]:
        """Return the attempts that this commit ended."""
        live = {attempt.n for attempt in self.attempts_before if attempt.state.live}
        known = {attempt.n for attempt in self.attempts_before}
        return [a for a in self.attempts if not a.state.live and (a.n in live or a.n not in known)]


def known_failure(attempt: Attempt) -> bool:
    """Return True if an attempt certainly failed or was certainly not launched."""
    return attempt.state is AttemptState.FAILED and attempt.failure in KNOWN


def unknown_outcome(attempt: Attempt) -> bool:
    """Return True if an attempt ended with an unknown outcome."""
    if attempt.state is AttemptState.FAILED:
        return attempt.failure not in KNOWN
    return attempt.state in (AttemptState.LOST, AttemptState.PREEMPTED)


def unreported(tx: Tx) -> frozenset[str]:
    """Return the clusters that have not reported since a restore."""
    return frozenset(row.cluster for row in tx.restore_reports() if row.state is ReportState.AWAITED)


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    what: str
    at: float

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.3f} s: {self.what}"


@dataclass(slots=True)
class Lease:
    """A lease, with the time of the world's clock."""

    given: float
    until: float | None
    holder: str


@dataclass(slots=True, kw_only=True)
class Invariants:
    """The checks of `invariants.py` by event."""

    on_change: tuple[Callable[[Witness, JobChange], str | None], ...] = ()
    on_launch: tuple[Callable[[Witness, int, int, str], str | None], ...] = ()
    on_host: tuple[Callable[[Witness, int, str, str], str | None], ...] = ()
    on_kill: tuple[Callable[[Witness, int, int, str], str | None], ...] = ()
    on_second: tuple[Callable[[Witness], str | None], ...] = ()


@dataclass(slots=True, kw_only=True)
class Witness:
    """The last committed state, the ground truth, and the first violation."""

    truth: GroundTruth
    rules: Invariants
    now: Callable[[], float]
    note: Callable[..., None]
    stop: Callable[[], None]
    lease: float
    run_lease: float
    steady: bool = True  # the server's clock does not jump
    capacity: dict[str, int] = field(default_factory=dict)  # cores by cluster, if allocation is limited to them
    cores_of: Callable[[Job], int] = lambda job: 1
    # hosts of a cluster that satisfy a job's requirements; empty: all
    hosts_of: Callable[[Job, str], Collection[str]] = lambda job, cluster: ()
    heard: dict[str, float] = field(default_factory=dict)  # last contact of each cluster
    jobs: dict[int, Job] = field(default_factory=dict)
    attempts: dict[int, tuple[Attempt, ...]] = field(default_factory=dict)
    fences: dict[str, tuple[int, int]] = field(default_factory=dict)
    tags: dict[tuple[int, int], str] = field(default_factory=dict)  # the fence of each attempt, of lost ones as well
    leases: dict[str, Lease] = field(default_factory=dict)
    allocated: dict[str, dict[str, int]] = field(default_factory=dict)  # cluster -> fence -> cores
    waits_for: dict[int, list[Dependency]] = field(default_factory=dict)
    excused: set[tuple[int, int]] = field(default_factory=set)  # attempts that a guard ended
    known_failures: Counter[int] = field(default_factory=Counter)  # number of attempts by job
    unknown_outcomes: Counter[int] = field(default_factory=Counter)
    acknowledged: dict[int, str] = field(default_factory=dict)  # job -> request
    by_token: dict[tuple[str, str], int] = field(default_factory=dict)
    server_since: float | None = None  # when the current server became ready; None: it is down
    disk_since: float | None = 0.0  # when writes began to work; None: the disk is full
    awaited: frozenset[str] = frozenset()  # after a restore: clusters that have not reported
    lost: dict[int, Job] = field(default_factory=dict)  # jobs as they were before each restore
    restores: int = 0
    old_jobs: int = 0  # after a restore: the highest id of a job from before
    seq: int = 0
    violation: Violation | None = None

    @property
    def restored(self) -> bool:
        return self.old_jobs > 0

    def is_old(self, job: int) -> bool:
        """Return True for a job whose history is partly lost."""
        return job <= self.old_jobs

    def terms(self, job: int) -> Terms:
        """Return the terms of a job, also if the database has lost it."""
        return (self.lost.get(job) or self.jobs[job]).terms

    def after_restore(self, tx: Tx) -> None:
        """Replace the observed state with that of the restored database."""
        self.restores += 1
        self.lost |= {id: self._as_lost(job) for id, job in self.jobs.items()}
        self.jobs = {job.id: job for job in tx.list_jobs(JobSelection(), limit=MAX_EVENTS_PER_READ)}
        self.attempts = {id: tuple(tx.attempts(id)) for id in self.jobs}
        self.waits_for = {id: tx.dependencies(id) for id in self.jobs}
        self.fences = {a.token: (a.job, a.n) for attempts in self.attempts.values() for a in attempts}
        self.by_token = {(job.owner, job.client_token): id for id, job in self.jobs.items() if job.client_token}
        self.acknowledged = {id: spec for id, spec in self.acknowledged.items() if id in self.jobs}
        self.leases, self.allocated = {}, {}
        self.old_jobs, self.seq, self.awaited = tx.old_jobs(), tx.last_seq(), unreported(tx)

    def _as_lost(self, job: Job) -> Job:
        """Return a job that a restore loses, combined with its state from earlier restores."""
        before = self.lost.get(job.id)
        if before is None:
            return job
        over = before.state.terminal or before.state is JobState.CANCELLING
        return replace(job, terms=before.terms, state=before.state if over else job.state)

    def committed(self, tx: Tx) -> None:
        for token in list(self.leases):  # one may be renewed without an event
            leased = tx.attempt(*self.fences[token])
            if leased is not None and leased.state is AttemptState.LEASED:
                self._time(leased)
        if self.restored:
            self.awaited = unreported(tx)
        events = tx.events(self.seq, MAX_EVENTS_PER_READ)
        if not events:
            return
        by_job: dict[int, list[Event]] = {}
        for event in events:
            self.seq += 1
            if self.restored and event.seq >= self.seq + MIN_SKIPPED_IDS:
                # a second skip: an agent had seen events that the copy lacks
                self.seq, self.old_jobs = event.seq, tx.old_jobs()
            if event.seq != self.seq:
                self.broken("I6 events have no gaps", f"event {event.seq} came where {self.seq} was due")
                return
            by_job.setdefault(event.job, []).append(event)
        for id, of_job in by_job.items():
            job = tx.job(id)
            assert job is not None
            if id not in self.waits_for:
                self.waits_for[id] = tx.dependencies(id)
            change = JobChange(
                before=self.jobs.get(id),
                job=job,
                attempts_before=self.attempts.get(id, ()),
                attempts=tuple(tx.attempts(id)) if job.attempt else (),
                events=tuple(of_job),
            )
            self._take(change)
            self.hold(self.rules.on_change, self, change)

    def _take(self, change: JobChange) -> None:
        job = change.job
        self.note("job", job.id, job.state.value, *[f"{a.n}:{a.cluster}:{a.state.value}" for a in change.attempts])
        self.jobs[job.id], self.attempts[job.id] = job, change.attempts
        for attempt in change.attempts:
            of_cluster = self.allocated.setdefault(attempt.cluster, {})
            if not attempt.state.live:
                of_cluster.pop(attempt.token, None)
            elif attempt.token not in of_cluster:
                of_cluster[attempt.token] = self.cores_of(job)
            self._time(attempt)
        for attempt in change.ended():  # the late end of a lost attempt does not restore a rerun
            self.known_failures[job.id] += known_failure(attempt)
            self.unknown_outcomes[job.id] += unknown_outcome(attempt)

    def _time(self, attempt: Attempt) -> None:
        if attempt.state is not AttemptState.LEASED:
            if attempt.state is not AttemptState.LAPSED:
                self.leases.pop(attempt.token, None)
            return
        if attempt.lease_until is None:  # suspended until its cluster has reported
            self.leases.pop(attempt.token, None)
            return
        known = self.leases.get(attempt.token)
        if known is None or known.holder != attempt.holder or known.until != attempt.lease_until:
            self.leases[attempt.token] = Lease(self.now(), attempt.lease_until, attempt.holder)

    def patience(self, attempt: Attempt) -> float:
        """Return the seconds of silence after which an attempt must be given up."""
        terms = self.jobs[attempt.job].terms
        if terms.lost_after is not None:
            return terms.lost_after
        return self.run_lease if attempt.guarded and terms.delivery is Delivery.AT_LEAST_ONCE else math.inf

    def given_up(self, job: int, n: int) -> bool:
        """Return True if an attempt was given up and may still run, because its cluster has no guard."""
        attempt = self.attempt(job, n)
        return attempt is not None and attempt.state is AttemptState.LOST and not attempt.guarded

    def held_on(self, cluster: str) -> list[Attempt]:
        """Return the committed attempts that a cluster has accepted."""
        of = (attempts[-1] for attempts in self.attempts.values() if attempts)
        return [attempt for attempt in of if attempt.cluster == cluster and attempt.state in LIVE[2:]]

    def attempt(self, job: int, n: int) -> Attempt | None:
        return next((attempt for attempt in self.attempts.get(job, ()) if attempt.n == n), None)

    def launches(self, job: int, n: int, cluster: str, host: str) -> None:
        self.note("launch", job, n, cluster, host)
        self.hold(self.rules.on_launch, self, job, n, cluster)
        self.hold(self.rules.on_host, self, job, cluster, host)

    def kills(self, job: int, n: int, cluster: str) -> None:
        self.note("kill", job, n, cluster)
        self.hold(self.rules.on_kill, self, job, n, cluster)

    def submitted(self, owner: str, token: str, id: int, spec: str) -> None:
        """Check an acknowledged submission."""
        job = self.jobs.get(id)
        if job is None or job.spec != spec:
            self.broken("I1 acknowledged is durable", f"job {id} was acknowledged, and the store has {job}")
        first = self.by_token.setdefault((owner, token), id) if token else id
        if first != id:
            self.broken("I2 one job per client token", f"token {token} was answered by jobs {first} and {id}")
        self.acknowledged[id] = spec

    def broken(self, rule: str, what: str) -> None:
        """Record the first violation and stop the world."""
        if self.violation is None:
            self.violation = Violation(rule, what, self.now())
            self.note("VIOLATION", rule, what)
            self.stop()

    def hold(self, rules: Iterable[Callable[..., str | None]], *about: object) -> None:
        """Check rules until one is broken; its docstring is the promise."""
        for rule in rules:
            what = rule(*about)
            if what is not None:
                self.broken((rule.__doc__ or rule.__name__).rstrip("."), what)
                return

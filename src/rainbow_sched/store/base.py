"""What a store promises: durable writes that share a commit, reads that see one moment, and every verb in between.

`Store.write` returns only when its work is committed to disk. The work runs in the store's own
thread, inside a savepoint: if it raises, nothing of it remains and its neighbours in the same
commit are untouched. It may be run again after a lost connection, so it changes nothing but the
transaction. `Store.read` sees one consistent moment and never waits for a writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.credential import Credential, CredentialKind
from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.generation import Cause, Generation, HistoryMark
from rainbow_sched.model.job import Event, Hold, Job, JobEvent, JobState
from rainbow_sched.store.records import (
    Account,
    AuditRow,
    ClusterGroup,
    ClusterReport,
    Command,
    DecidedJob,
    Dependency,
    Finding,
    JobFilter,
    NewJob,
    PlacedAttempt,
    ReportState,
    WaitingJob,
)

__all__ = [
    "Account",
    "AuditRow",
    "ClusterGroup",
    "ClusterReport",
    "Command",
    "DecidedJob",
    "Dependency",
    "Finding",
    "JobFilter",
    "NewJob",
    "PlacedAttempt",
    "ReadOnly",
    "ReportState",
    "Store",
    "Tx",
    "WaitingJob",
]

T = TypeVar("T")


class ReadOnly(RuntimeError):
    """A writing verb was used inside `Store.read`; this is a mistake in the calling code."""


class ClusterVerbs(Protocol):
    """Clusters and their graphs. Names are compared byte for byte."""

    def add_cluster(self, name: str, at: float) -> Cluster:
        """A new cluster; AlreadyExists if a live one has the name."""

    def cluster(self, name: str) -> Cluster | None:
        """The live cluster of that name."""

    def cluster_by_id(self, id: int) -> Cluster | None:
        """A cluster, removed or not."""

    def clusters(self) -> list[Cluster]:
        """All live clusters by name."""

    def update_cluster(self, id: int, **changes: object) -> Cluster:
        """Change standing, manager, seen_at, state, state_at, marks, used, rules, record, drain_reason, node_rules or
        wrong_nodes."""

    def remove_cluster(self, id: int, at: float) -> None:
        """Take it out: its name is free again, its graphs are gone, its live attempts belong to nobody's lease."""

    def put_graph(self, cluster_id: int, subsystem: str, data: bytes, at: float) -> None:
        """Keep a graph; subsystem "" is the dominant one."""

    def graph(self, cluster_id: int, subsystem: str) -> bytes | None:
        """A graph as it was put; Corrupt if its bytes changed since."""

    def graphs(self, cluster_id: int) -> dict[str, bytes]:
        """Every graph of a cluster by subsystem."""

    def subsystems(self, cluster_id: int) -> list[str]:
        """The names of its subsystems, without the dominant graph."""

    def drop_graph(self, cluster_id: int, subsystem: str) -> bool:
        """Forget a graph; False if there was none."""


class JobVerbs(Protocol):
    """Jobs, and the events that brought them where they are."""

    def add_jobs(self, drafts: Sequence[NewJob]) -> list[int]:
        """Store new jobs with their events, attempts, decisions and dependencies; their ids in order."""

    def add_lost_job(self, id: int, draft: NewJob) -> None:
        """Store a job again under the id that it had in a history that is lost."""

    def job(self, id: int) -> Job | None:
        """One job; Corrupt if its stored request changed since it was written."""

    def jobs(self, ids: Sequence[int]) -> list[Job]:
        """Those of these jobs that exist, in order of their ids."""

    def apply_decisions(self, settled: Sequence[DecidedJob], at: float) -> None:
        """Give many queued jobs to their clusters, or hold them; raise Conflict if one has moved on."""

    def jobs_by_tokens(self, owner: str, tokens: Sequence[str]) -> dict[str, Job]:
        """The jobs that `owner` submitted under these client tokens."""

    def list_jobs(self, which: JobFilter, *, after: int | None = None, limit: int) -> list[Job]:
        """Newest first, below id `after`. Specs are not checked here: a list shows damage, `job` refuses it."""

    def count_jobs(self, which: JobFilter) -> dict[JobState, int]:
        """How many jobs are in each state; states without jobs are left out."""

    def update_job(
        self, job: Job, event: JobEvent, at: float, *, detail: Mapping[str, object] | None = None, **changes: object
    ) -> Job:
        """Move a job along `model.job.after` with its event; Conflict if it moved since `job` was read.

        Leaving HELD clears `hold`, and a terminal state sets `ended_at`, unless `changes` says otherwise.
        """

    def add_update_events(self, jobs: Sequence[Job], at: float, detail: Mapping[str, object]) -> list[Job]:
        """The same news of many jobs, which leaves them where they are; Conflict if one moved since it was read."""

    def due_jobs(self, now: float, limit: int) -> list[Job]:
        """Jobs held for a time that has come, and living jobs whose deadline has passed."""

    def dependencies(self, job_id: int) -> list[Dependency]:
        """What a job waits for."""

    def waiters(self, job_id: int, after: int, limit: int) -> list[int]:
        """Jobs that wait for this one, in the order of their ids, from `after` on."""

    def dependents(self, job_id: int) -> list[tuple[int, str]]:
        """Who waits for a job: (job id, kind), by id."""


class LoadingVerbs(Protocol):
    """What a server that starts brings into its memory, as little of each as will do."""

    def queued_ids(self, limit: int, after: int = 0) -> list[int]:
        """QUEUED jobs by id, above id `after`."""

    def waiting(self, hold: Hold, limit: int, after: int = 0) -> list[WaitingJob]:
        """HELD jobs that wait for `hold`, by id, above id `after`."""

    def count_held(self, hold: Hold) -> int:
        """How many HELD jobs wait for `hold`."""

    def placed_attempts(self, cluster: str) -> list[PlacedAttempt]:
        """The live attempts of a cluster: first those that are furthest, then as they are leased."""


class AttemptVerbs(Protocol):
    """Attempts, leases and commands. A cluster is named; what a removed cluster held is not found by its name."""

    def add_attempt(self, job: Job, cluster: str, token: str, at: float, *, n: int | None = None) -> Attempt:
        """Offer `job` to a cluster as its next attempt, or as attempt `n`; NotFound if there is no such cluster."""

    def attempt(self, job_id: int, n: int) -> Attempt | None:
        """One attempt."""

    def attempts(self, job_id: int) -> list[Attempt]:
        """All attempts of a job, first to last."""

    def live_attempts(self, cluster: str) -> list[Attempt]:
        """The attempts of a cluster that may still run, by job."""

    def attempts_in(self, cluster: str, state: AttemptState, limit: int | None = None) -> list[Attempt]:
        """The live attempts of a cluster that are in one state, by job; with a limit, the first to be leased."""

    def count_live(self, cluster: str) -> dict[AttemptState, int]:
        """How many `live_attempts` would give, by state; states without any are left out."""

    def update_attempt(self, attempt: Attempt, state: AttemptState, at: float, **changes: object) -> Attempt:
        """Move an attempt along `model.attempt.allowed`, or change fields in its state; Conflict if it moved since.

        The first ACCEPTED, RUNNING and terminal state set accepted_at, started_at, ended_at unless `changes` does.
        """

    def lease(
        self, cluster: str, limit: int, holder: str, until: float, *, now: float | None = None
    ) -> list[tuple[Attempt, Job]]:
        """Lease offered attempts of BOUND jobs, highest priority first, then oldest.

        With `now`, leases that lapsed by then are given again too. A job whose stored request is
        damaged is never handed out: it ends FAILED with that as its reason.
        """

    def was_received(self, cluster: str) -> bool:
        """True if jobs of a cluster were handed off to receivers."""

    def lapsed(self, now: float, limit: int) -> list[Attempt]:
        """LEASED attempts whose lease ended by `now`, longest ago first."""

    def add_command(self, attempt: Attempt, kind: str, at: float) -> int:
        """Ask the agent for something; asking again before it acknowledged gives the same id."""

    def commands(self, cluster: str) -> list[Command]:
        """What an agent has still to acknowledge about attempts that live."""

    def ack_command(self, id: int) -> None:
        """The agent did it."""


class HistoryVerbs(Protocol):
    """Events, decisions, output, and the last answer to each agent."""

    def events(
        self, after_seq: int, limit: int, *, job: int | None = None, owners: Sequence[str] | None = None
    ) -> list[Event]:
        """Events above `after_seq`, in order, of one job or of some owners' jobs if asked."""

    def last_seq(self) -> int:
        """The number of the newest event; 0 if there is none."""

    def put_decision(self, job_id: int, n: int, at: float, record: StoredDecision) -> None:
        """Keep why attempt `n` went where it went; 0 while a job has no attempt. A second one replaces the first."""

    def decision(self, job_id: int, n: int | None = None) -> StoredDecision | None:
        """The decision behind an attempt, or the newest one."""

    def decisions(self, job_id: int) -> list[tuple[int, float, StoredDecision]]:
        """Every decision of a job: (attempt, time, record)."""

    def append_output(self, job_id: int, n: int, stream: str, offset: int, data: bytes, at: float) -> None:
        """Keep output that begins at `offset`; what is already there is not written twice."""

    def output(self, job_id: int, n: int, stream: str, offset: int, limit: int) -> bytes:
        """Output from `offset` on, up to `limit` bytes or the first gap."""

    def output_size(self, job_id: int, n: int, stream: str) -> int:
        """Where the output ends so far."""

    def next_output(self, job_id: int, n: int, stream: str, offset: int) -> int | None:
        """The first offset from `offset` on at which there is output: the far side of a gap. None at the end."""

    def cut_output(self, job_id: int, n: int, stream: str, start: int, end: int) -> None:
        """Forget the bytes from `start` up to `end`; a gap remains."""

    def stored_sync(self, cluster: str, epoch: str, seq: int) -> bytes | None:
        """The answer that this very message got before."""

    def store_sync(self, cluster: str, epoch: str, seq: int, answer: bytes) -> None:
        """Keep the newest answer; one per cluster. The epoch that was there before is over."""

    def agent_epoch(self, cluster: str) -> str | None:
        """The epoch of the agent that spoke last."""

    def epoch_is_over(self, cluster: str, epoch: str) -> bool:
        """True if an agent with that epoch was followed by another one."""


class RetentionVerbs(Protocol):
    """Finished jobs that nobody wants to keep."""

    def remove_finished(self, before: float, limit: int) -> int:
        """Remove the oldest of those that ended by `before`, with all that is known of them; how many.

        One that a job waits for which has not ended is kept.
        """

    def count_finished(self) -> int:
        """How many jobs have ended and are still there."""

    def horizon(self, owners: Sequence[str] | None = None) -> int:
        """The newest event that was removed, of some owners' jobs or of all; 0 if none was."""


class AccessVerbs(Protocol):
    """Credentials, users, groups and the audit log."""

    def add_credential(self, credential: Credential) -> None:
        """Keep one; AlreadyExists if its id is taken."""

    def credential(self, id: str) -> Credential | None:
        """One credential, live or not."""

    def credentials(self, owner: str | None = None, kind: CredentialKind | None = None) -> list[Credential]:
        """All credentials, oldest first."""

    def revoke(self, id: str, at: float) -> bool:
        """End one now; False if there is none that lives."""

    def revoke_of(self, owner: str, at: float) -> int:
        """End all of one owner now; how many."""

    def touch_credential(self, id: str, at: float) -> None:
        """Note that it was used."""

    def spend_credential(self, id: str) -> bool:
        """Use it up by one; False if it is revoked or spent. One without a number of uses is never spent."""

    def put_user(self, name: str, groups: Sequence[str], disabled: bool, at: float) -> Account:
        """Create a user or change one."""

    def user(self, name: str) -> Account | None:
        """One user."""

    def users(self) -> list[Account]:
        """All users by name."""

    def put_group(self, name: str, clusters: Sequence[str]) -> ClusterGroup:
        """Create a group of clusters or change one."""

    def groups(self) -> list[ClusterGroup]:
        """All groups of clusters by name."""

    def append_audit(
        self, at: float, actor: str, credential: str, address: str, verb: str, object: str, outcome: str, detail: str
    ) -> int:
        """Add a line to the chain; its number."""

    def audit(self, after: int, limit: int, **equal: str) -> list[AuditRow]:
        """Lines above `after`; `equal` narrows by actor, credential, address, verb, object or outcome."""

    def verify_audit(self) -> int | None:
        """The first line that does not follow from the one before, or None if the chain holds."""


class GenerationVerbs(Protocol):
    """The history of the database, and what is still to be heard after a restore."""

    def generations(self) -> list[Generation]:
        """Every generation, in order."""

    def has_lost(self, mark: HistoryMark) -> bool:
        """True if whoever was given `mark` has seen something that is not in this database."""

    def begin_generation(self, id: str, at: float) -> Generation:
        """A server starts; `id` is random."""

    def begin_restore(
        self, id: str, at: float, seen: Sequence[HistoryMark] = (), cause: Cause = Cause.RESTORE
    ) -> Generation:
        """The database is an older copy of itself: pass over the numbers that may have been given since.

        Every cluster is to report what it knows, and what was leased waits for that. `seen` are marks that the
        database has lost.
        """

    def old_jobs(self) -> int:
        """The highest id that a job from before the last restore can have; 0 if there was no restore."""

    def cluster_reports(self) -> list[ClusterReport]:
        """The clusters that were registered when the database was restored last, by name."""

    def update_cluster_report(self, cluster_id: int, state: ReportState, why: str = "") -> None:
        """Change how far a cluster is."""

    def resume_leases(self, cluster_id: int, until: float) -> None:
        """Give the leases of a cluster, which a restore suspended, an end again."""

    def add_finding(self, finding: Finding) -> None:
        """Keep what was learned, for the operator."""

    def findings(self, generation: int, after: int, limit: int) -> list[tuple[int, Finding]]:
        """What was learned after one restore, with its numbers, above number `after`."""

    def count_findings(self, generation: int) -> Mapping[str, int]:
        """How many findings of each kind there are."""


class SavepointVerbs(Protocol):
    """Parts of a transaction that can fail alone."""

    def savepoint(self) -> AbstractContextManager[None]:
        """What is raised inside undoes what was done inside, and nothing else of the transaction."""


class Tx(
    ClusterVerbs,
    JobVerbs,
    LoadingVerbs,
    AttemptVerbs,
    HistoryVerbs,
    RetentionVerbs,
    AccessVerbs,
    GenerationVerbs,
    SavepointVerbs,
    Protocol,
):
    """One transaction. Use it only inside the work it was given to."""

    def meta(self, key: str) -> str | None:
        """A small setting of the whole database."""

    def set_meta(self, key: str, value: str) -> None:
        """Keep a small setting."""

    def sizes(self) -> dict[str, int]:
        """A few cheap numbers for health: jobs, events, audit lines and attempts ever stored, live clusters, bytes."""


class Store(Protocol):
    """Where the truth is kept."""

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` and return its answer once it is durable. Unavailable: it is not; Unconfirmed: it may be.

        `brief` promises that it takes a few milliseconds at the most, so that it may run in the caller's thread.
        """

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent moment; writing verbs raise ReadOnly."""

    async def close(self) -> None:
        """Finish what was asked, then let go of the database."""

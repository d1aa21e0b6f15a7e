"""The store interface: durable writes with group commit, consistent reads, and every query of a transaction.

`Store.write` returns only when the work is committed to disk. The work runs in the store's own thread, inside a
savepoint: if it raises, its changes are undone and the other works of the same commit are unaffected. It may run
again after a lost connection, so it must change nothing but the transaction. `Store.read` sees one consistent
snapshot and never waits for a writer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.credential import Credential, CredentialKind
from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.generation import Cause, Generation, HistoryMark
from rainbow_sched.model.job import Event, Hold, Job
from rainbow_sched.model.job_state import JobEvent, JobState
from rainbow_sched.store.records import (
    Account,
    AuditRow,
    ClusterGroup,
    Command,
    DecidedJob,
    Dependency,
    JobSelection,
    NewJob,
    PlacedAttempt,
    ReportState,
    RestoreFinding,
    RestoreReport,
    WaitingJob,
)

__all__ = [
    "Account",
    "AuditRow",
    "ClusterGroup",
    "Command",
    "DecidedJob",
    "Dependency",
    "JobSelection",
    "NewJob",
    "PlacedAttempt",
    "ReadOnly",
    "ReportState",
    "RestoreFinding",
    "RestoreReport",
    "Store",
    "Tx",
    "WaitingJob",
]

T = TypeVar("T")


class ReadOnly(RuntimeError):
    """A query that writes was used inside `Store.read`; this is a mistake in the calling code."""


class Tx(Protocol):
    """The queries of one transaction. Use it only inside the work that it was passed to."""

    # --- Clusters and their graphs. Names are compared byte for byte. ---

    def add_cluster(self, name: str, at: float) -> Cluster:
        """Register a cluster; raise AlreadyExists if a live one has the name."""

    def cluster(self, name: str) -> Cluster | None:
        """Return the live cluster of that name."""

    def clusters(self) -> list[Cluster]:
        """Return all live clusters by name."""

    def update_cluster(self, id: int, **changes: object) -> Cluster:
        """Change standing, manager, seen_at, state, state_at, marks, used, rules, record, drain_reason, node_rules or
        wrong_nodes."""

    def check_clusters(self, planned_for: Mapping[str, Cluster]) -> None:
        """Raise NotFound or Conflict unless these are the live clusters of their names, with the same rules."""

    def remove_cluster(self, id: int, at: float) -> None:
        """Remove a cluster: its name is free again, its graphs are deleted, its live attempts have no lease."""

    def put_graph(self, cluster_id: int, subsystem: str, data: bytes, at: float) -> None:
        """Store a graph; subsystem "" is the dominant one."""

    def graph(self, cluster_id: int, subsystem: str) -> bytes | None:
        """Return a graph as it was stored; raise Corrupt if its bytes have changed since."""

    def graphs(self, cluster_id: int) -> dict[str, bytes]:
        """Return every graph of a cluster by subsystem."""

    def subsystems(self, cluster_id: int) -> list[str]:
        """Return the names of a cluster's subsystems, without the dominant graph."""

    def drop_graph(self, cluster_id: int, subsystem: str) -> bool:
        """Delete a graph; return False if there was none."""

    # --- Jobs and their state changes ---

    def add_jobs(self, new_jobs: Sequence[NewJob]) -> list[int]:
        """Store new jobs with their events, attempts, decisions and dependencies; return their ids in order."""

    def add_lost_job(self, id: int, new_job: NewJob) -> None:
        """Store a job again under the id that it had before the restore."""

    def job(self, id: int) -> Job | None:
        """Return a job; raise Corrupt if its stored request has changed since it was written."""

    def jobs(self, ids: Sequence[int]) -> list[Job]:
        """Return those of these jobs that exist, ordered by id."""

    def apply_decisions(self, decided: Sequence[DecidedJob], at: float) -> None:
        """Bind or hold many queued jobs; raise Conflict if one has changed since it was read."""

    def jobs_by_tokens(self, owner: str, tokens: Sequence[str]) -> dict[str, Job]:
        """Return the jobs that `owner` submitted under these client tokens."""

    def list_jobs(self, which: JobSelection, *, after: int | None = None, limit: int) -> list[Job]:
        """Return jobs below id `after`, newest first. Specs are not verified: a list shows damage, `job` rejects it."""

    def count_jobs(self, which: JobSelection) -> dict[JobState, int]:
        """Count jobs by state; states without jobs are left out."""

    def update_job(
        self, job: Job, event: JobEvent, at: float, *, detail: Mapping[str, object] | None = None, **changes: object
    ) -> Job:
        """Apply a transition of `model.job.after` and store its event; Conflict if the job has changed since.

        Leaving HELD clears `hold`, and a terminal state sets `ended_at`, unless `changes` says otherwise.
        """

    def add_update_events(self, jobs: Sequence[Job], at: float, detail: Mapping[str, object]) -> list[Job]:
        """Store the same UPDATED event for many jobs, which keep their state; Conflict if one has changed since."""

    def due_jobs(self, now: float, limit: int) -> list[Job]:
        """Return held jobs whose start time has come, and live jobs whose deadline has passed."""

    def dependencies(self, job_id: int) -> list[Dependency]:
        """Return the jobs that this one waits for."""

    def waiters(self, job_id: int, after: int, limit: int) -> list[int]:
        """Return ids of jobs that wait for this one, above id `after`, in order."""

    def add_unsettled(self, jobs: Iterable[tuple[int, int]]) -> None:
        """Store jobs whose dependents another transaction has to settle: (job, above which dependent)."""

    def take_unsettled(self) -> list[tuple[int, int]]:
        """Delete the rows of `add_unsettled` and return them."""

    # --- State that a starting server loads into memory ---

    def queued_ids(self, limit: int, after: int = 0) -> list[int]:
        """Return ids of QUEUED jobs above id `after`, in order."""

    def waiting(self, hold: Hold, limit: int, after: int = 0) -> list[WaitingJob]:
        """Return HELD jobs with this `hold` above id `after`, by id."""

    def count_held(self, hold: Hold) -> int:
        """Count the HELD jobs with this `hold`."""

    def placed_attempts(self, cluster: str) -> list[PlacedAttempt]:
        """Return the live attempts of a cluster with their specs: running ones first, then in leasing order."""

    # --- Attempts, leases and commands. Attempts of a removed cluster are not found by its name. ---

    def add_attempt(self, job: Job, cluster: str, token: str, at: float, *, n: int | None = None) -> Attempt:
        """Offer `job` to a cluster as its next attempt, or as attempt `n`; NotFound if there is no such cluster."""

    def attempt(self, job_id: int, n: int) -> Attempt | None:
        """Return one attempt."""

    def attempts(self, job_id: int) -> list[Attempt]:
        """Return all attempts of a job, first to last."""

    def live_attempts(self, cluster: str) -> list[Attempt]:
        """Return the attempts of a cluster that may still run, by job."""

    def attempts_in(self, cluster: str, state: AttemptState, limit: int | None = None) -> list[Attempt]:
        """Return the live attempts of a cluster in one state, by job; with a limit, the next ones to be leased."""

    def count_live(self, cluster: str) -> dict[AttemptState, int]:
        """Count the live attempts of a cluster by state; states without any are left out."""

    def update_attempt(self, attempt: Attempt, state: AttemptState, at: float, **changes: object) -> Attempt:
        """Apply a transition of `model.attempt.allowed`, or change fields in the same state; Conflict if it moved.

        The first ACCEPTED, RUNNING and terminal state set accepted_at, started_at, ended_at unless `changes` does.
        """

    def lease(
        self, cluster: str, limit: int, holder: str, until: float, *, now: float | None = None
    ) -> list[tuple[Attempt, Job]]:
        """Lease offered attempts of BOUND jobs, highest priority first, then oldest.

        With `now`, leases that have expired by then are granted again. A job whose stored request is damaged is never
        leased: it becomes FAILED with that reason.
        """

    def was_received(self, cluster: str) -> bool:
        """Return True if jobs of a cluster were handed to receivers of the prototype."""

    def lapsed(self, now: float, limit: int) -> list[Attempt]:
        """Return LEASED attempts whose lease expired by `now`, oldest expiry first."""

    def add_command(self, attempt: Attempt, kind: str, at: float) -> int:
        """Add a command for the agent; return the id of the pending one if there is one of this kind."""

    def commands(self, cluster: str) -> list[Command]:
        """Return the unacknowledged commands about live attempts."""

    def ack_command(self, id: int) -> None:
        """Mark a command as acknowledged."""

    # --- Events, decisions, output, and the last response to each agent ---

    def events(
        self, after_seq: int, limit: int, *, job: int | None = None, owners: Sequence[str] | None = None
    ) -> list[Event]:
        """Return events above `after_seq` in order, optionally of one job or of some owners."""

    def last_seq(self) -> int:
        """Return the number of the newest event; 0 if there is none."""

    def put_decision(self, job_id: int, n: int, at: float, record: StoredDecision) -> None:
        """Store the decision behind attempt `n`, or 0 while a job has no attempt; replace an earlier one."""

    def decision(self, job_id: int, n: int | None = None) -> StoredDecision | None:
        """Return the decision behind an attempt, or the newest one."""

    def append_output(self, job_id: int, n: int, stream: str, offset: int, data: bytes, at: float) -> None:
        """Store output that begins at `offset`; bytes that are already stored are skipped."""

    def output(self, job_id: int, n: int, stream: str, offset: int, limit: int) -> bytes:
        """Return output from `offset`, up to `limit` bytes or the first gap."""

    def output_size(self, job_id: int, n: int, stream: str) -> int:
        """Return the offset at which the stored output ends."""

    def next_output(self, job_id: int, n: int, stream: str, offset: int) -> int | None:
        """Return the first offset from `offset` on that has output, to skip a gap; None at the end."""

    def cut_output(self, job_id: int, n: int, stream: str, start: int, end: int) -> None:
        """Delete the bytes from `start` up to `end`; a gap remains."""

    def stored_sync(self, cluster: str, epoch: str, seq: int) -> bytes | None:
        """Return the response that this message received before."""

    def store_sync(self, cluster: str, epoch: str, seq: int, answer: bytes) -> None:
        """Store the latest response to a cluster's agent. A change of epoch ends the previous epoch."""

    def agent_epoch(self, cluster: str) -> str | None:
        """Return the epoch of the agent that was last in contact."""

    def epoch_is_over(self, cluster: str, epoch: str) -> bool:
        """Return True if an agent with that epoch was replaced by a later one."""

    # --- Retention ---

    def remove_finished(self, before: float, limit: int) -> int:
        """Delete the oldest jobs that ended by `before`, with all their data; return how many.

        A job with a dependent that has not ended is kept.
        """

    def count_finished(self) -> int:
        """Count the jobs that have ended and are still stored."""

    def horizon(self, owners: Sequence[str] | None = None) -> int:
        """Return the newest deleted event, of some owners' jobs or of all; 0 if none was deleted."""

    # --- Credentials, users, groups and the audit log ---

    def add_credential(self, credential: Credential) -> None:
        """Store a credential; raise AlreadyExists if its id is taken."""

    def credential(self, id: str) -> Credential | None:
        """Return a credential, valid or not."""

    def credentials(self, owner: str | None = None, kind: CredentialKind | None = None) -> list[Credential]:
        """Return all credentials, oldest first."""

    def revoke(self, id: str, at: float) -> bool:
        """Revoke a credential; return False if there is no valid one."""

    def revoke_of(self, owner: str, at: float) -> int:
        """Revoke all credentials of an owner; return how many."""

    def revoke_successors(self, credential: Credential, at: float) -> None:
        """Revoke the credentials that were to replace this one."""

    def end_credential(self, id: str, at: float) -> None:
        """Set when a replaced credential ends; an end that is set stays."""

    def ask_renewal(self, owner: str) -> None:
        """Mark the agent credentials of an owner, so that the agent renews its secret."""

    def touch_credential(self, id: str, at: float) -> None:
        """Record when a credential was last used."""

    def spend_credential(self, id: str) -> bool:
        """Use up one use; return False if it is revoked or has none left. One without a limit is never used up."""

    def put_user(
        self, name: str, at: float, *, groups: Sequence[str] = (), rights: Sequence[str] = (), disabled: bool = False
    ) -> Account:
        """Create or change a user."""

    def user(self, name: str) -> Account | None:
        """Return one user."""

    def users(self) -> list[Account]:
        """Return all users by name."""

    def put_group(self, name: str, clusters: Sequence[str], rights: Sequence[str] = ()) -> ClusterGroup:
        """Create or change a group of clusters."""

    def groups(self, names: Collection[str] | None = None) -> list[ClusterGroup]:
        """Return the groups of clusters with these names, or all, by name."""

    def append_audit(
        self, at: float, actor: str, credential: str, address: str, verb: str, object: str, outcome: str, detail: str
    ) -> int:
        """Append a line to the audit chain; return its number."""

    def audit(self, after: int, limit: int, **equal: str) -> list[AuditRow]:
        """Return lines above `after`; `equal` filters by actor, credential, address, verb, object or outcome."""

    def verify_audit(self) -> int | None:
        """Return the first line that breaks the chain, or None if the chain is intact."""

    # --- Generations of the database, and reports after a restore ---

    def generations(self) -> list[Generation]:
        """Return every generation, in order."""

    def has_lost(self, mark: HistoryMark) -> bool:
        """Return True if `mark` names an event that is not in this database."""

    def begin_generation(self, id: str, at: float) -> Generation:
        """Begin a generation for a server start; `id` is random."""

    def begin_restore(
        self, id: str, at: float, seen: Sequence[HistoryMark] = (), cause: Cause = Cause.RESTORE
    ) -> Generation:
        """Begin a generation after a restore: skip the numbers that may have been used since the backup.

        Every cluster must report the attempts that it knows, and leases are suspended until it has. `seen` are marks
        that the database has lost.
        """

    def old_jobs(self) -> int:
        """Return the highest id that a job from before the last restore can have; 0 if there was no restore."""

    def restore_reports(self) -> list[RestoreReport]:
        """Return the report state of the clusters that were registered at the last restore, by name."""

    def update_restore_report(self, cluster_id: int, state: ReportState, why: str = "") -> None:
        """Change the report state of a cluster."""

    def resume_leases(self, cluster_id: int, until: float) -> None:
        """Set the end of a cluster's leases, which a restore suspended."""

    def add_finding(self, finding: RestoreFinding) -> None:
        """Store what a cluster's report revealed, for the operator."""

    def findings(self, generation: int, after: int, limit: int) -> list[tuple[int, RestoreFinding]]:
        """Return the findings of one restore above number `after`, with their numbers."""

    def count_findings(self, generation: int) -> Mapping[str, int]:
        """Count findings by kind."""

    # --- The database as a whole ---

    def savepoint(self) -> AbstractContextManager[None]:
        """Return a context that undoes what was done inside it, and nothing else, if an exception leaves it."""

    def meta(self, key: str) -> str | None:
        """Return a setting of the database."""

    def set_meta(self, key: str, value: str) -> None:
        """Store a setting of the database."""

    def sizes(self) -> dict[str, int]:
        """Return cheap figures for health: jobs, events, audit lines and attempts ever stored, live clusters, bytes."""


class Store(Protocol):
    """A database of jobs, clusters and credentials."""

    async def write(self, work: Callable[[Tx], T], *, brief: bool = False) -> T:
        """Run `work` and return its result once it is durable. Unavailable: it is not; Unconfirmed: it may be.

        `brief` promises that it takes a few milliseconds at most, so that it may run in the caller's thread.
        """

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on a consistent snapshot; queries that write raise ReadOnly."""

    async def close(self) -> None:
        """Finish pending writes, then close the database."""

"""Apply what an agent reports about attempts inside a transaction: accepts, rejects, reports, inventory, output."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rainbow_sched.model.attempt import BEFORE_CONFIRM, Attempt, AttemptState, Failure, is_allowed
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.job import Job
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import (
    STREAMS,
    AttemptRef,
    OutputPiece,
    Report,
    UnknownReport,
    journal_of,
)
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.answer_draft import AnswerDraft, SyncTransaction
from rainbow_sched.service.agents.host_binding import MAX_HOSTLIST_CHARS, nodes_of
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.maintenance.restore import may_run_elsewhere
from rainbow_sched.service.scheduling.bids import score_end, score_start
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
MAX_CODE_CHARS = 64  # stored of a code that an agent reports
MAX_OUTPUT_OFFSET = 2**53  # bytes; a larger offset is an error
BLAMES_CLUSTER = frozenset({Failure.LAUNCH, Failure.REFUSED, Failure.NODE})


def find_attempt(tx: Tx, cluster: str, ref: AttemptRef) -> tuple[Job, Attempt] | None:
    """Return the job and attempt of a reference, if the token matches and it was given to this cluster."""
    job, attempt = tx.job(ref.job), tx.attempt(ref.job, ref.n)
    if job is None or attempt is None or attempt.cluster != cluster or attempt.token != ref.token:
        return None
    return job, attempt


def accept(sync: SyncTransaction, ref: AttemptRef) -> None:
    """Confirm an offer that the agent has journaled, repeatedly if need be, unless it was withdrawn.

    A job that may be running elsewhere is not confirmed: the agent accepts again, or rejects.
    """
    out, request = sync.out, sync.request
    if may_run_elsewhere(sync.core, sync.tx, ref.job, request.cluster):
        return
    found = find_attempt(sync.tx, request.cluster, ref)
    if found is None or not found[1].state.live or found[0].state is not JobState.BOUND:
        out.kills.append(ref)
        return
    job, attempt = found
    if attempt.state in BEFORE_CONFIRM:
        lifecycle.progress(sync.tx, sync.fx, job, attempt, AttemptState.ACCEPTED, sync.now, guarded=request.guards)
    out.confirms.append(ref)


def reject(sync: SyncTransaction, ref: AttemptRef, reason: str) -> None:
    """Return an attempt that the agent rejects; the job goes to the next cluster if it certainly never ran."""
    request = sync.request
    found = find_attempt(sync.tx, request.cluster, ref)
    if found is not None and found[1].state.live:
        how = _rejected_end(found[1], request.epoch, reason)
        lifecycle.end_attempt(sync.tx, sync.fx, *found, how, sync.now)
        sync.fx.outcomes.append((request.cluster, False))
    sync.out.acked.append(ref)


def _rejected_end(attempt: Attempt, epoch: str, reason: str) -> lifecycle.AttemptEnd:
    """Return how the attempt ended: an agent with another journal cannot know whether it ran."""
    if attempt.state in BEFORE_CONFIRM or journal_of(attempt.holder) == journal_of(epoch):
        return lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason=reason[:1024])
    lost = "the agent that took it is gone with its journal, so how it ended is unknown; it was not started again"
    return lifecycle.AttemptEnd(state=AttemptState.FAILED, failure=Failure.UNKNOWN, reason=lost)


def take(sync: SyncTransaction, received: Report | UnknownReport) -> None:
    """Apply a report, or store one that is not understood."""
    if isinstance(received, UnknownReport):
        store_unknown_report(sync, received)
    else:
        report(sync, received)


def report(sync: SyncTransaction, report: Report) -> None:
    """Apply a report. A stale token changes nothing and is answered by a kill; a repeated report by an ack."""
    tx, fx, out, cluster, now = sync.tx, sync.fx, sync.out, sync.request.cluster, sync.now
    found = find_attempt(tx, cluster, report.ref)
    if found is None:
        (out.acked if report.ends else out.kills).append(report.ref)
        return
    job, attempt = found
    if report.ends:
        out.acked.append(report.ref)
        if attempt.state is AttemptState.LOST and is_allowed(attempt.state, report.state):
            lifecycle.record_late_end(tx, fx, job, attempt, _attempt_end(report, now), now)
        elif is_allowed(attempt.state, report.state) and job.attempt == attempt.n and not job.state.terminal:
            _end(tx, fx, job, attempt, report, now)
        return
    if not attempt.state.live:
        out.kills.append(report.ref)
        return
    if report.native_id and report.native_id != attempt.native_id:
        attempt = tx.update_attempt(attempt, attempt.state, now, native_id=report.native_id[:256])
    if (nodes := _nodes(report)) and nodes != attempt.nodes:
        attempt = tx.update_attempt(attempt, attempt.state, now, nodes=nodes)
        fx.nodes.append((cluster, attempt.token, nodes))
    if is_allowed(attempt.state, report.state):
        changes = {} if report.started_at is None else {"started_at": min(report.started_at, now)}
        moved = lifecycle.progress(tx, fx, job, attempt, report.state, now, **changes)
        if report.state is AttemptState.RUNNING:
            score_start(tx, fx, moved, now)
            fx.outcomes.append((cluster, True))


def store_unknown_report(sync: SyncTransaction, report: UnknownReport) -> None:
    """Store a report that is not understood, once, and change nothing. The agent keeps it as well.

    The agent may delete it if its attempt is no longer live.
    """
    found = find_attempt(sync.tx, sync.request.cluster, report.ref)
    if found is None or not found[1].state.live:
        sync.out.acked.append(report.ref)
        return
    lifecycle.add_unknown_report_event(sync.tx, sync.fx, *found, report.text, report.why, sync.now)
    sync.out.unknown.append(report.ref)


def _attempt_end(report: Report, now: float) -> lifecycle.AttemptEnd:
    return lifecycle.AttemptEnd(
        state=report.state,
        exit_code=report.exit_code,
        failure=report.failure,
        reason=report.reason[:1024] or _describe_end(report),
        ended_at=None if report.ended_at is None else min(report.ended_at, now),
        started_at=None if report.started_at is None else min(report.started_at, now),
        nodes=_nodes(report),
        code=report.code[:MAX_CODE_CHARS],
    )


def _nodes(report: Report) -> str:
    """Return the hostlist of a report if it is valid."""
    return report.nodes if len(report.nodes) <= MAX_HOSTLIST_CHARS and nodes_of(report.nodes) else ""


def _end(tx: Tx, fx: Effects, job: Job, attempt: Attempt, report: Report, now: float) -> None:
    how = _attempt_end(report, now)
    if attempt.started_at is None and how.started_at is not None:
        score_start(tx, fx, attempt, how.started_at)
    if report.state is AttemptState.SUCCEEDED:
        score_end(tx, fx, job, attempt, how.started_at or attempt.started_at, how.ended_at or now)
    lifecycle.end_attempt(tx, fx, job, attempt, how, now)
    if how.code == WRONG_NODES:
        cluster = tx.cluster(attempt.cluster)
        if cluster is not None:
            fx.changed(tx.update_cluster(cluster.id, wrong_nodes=cluster.wrong_nodes + 1))
    blamed = report.state is AttemptState.RETURNED or report.failure in BLAMES_CLUSTER
    fx.outcomes.append((attempt.cluster, not blamed))


def _describe_end(report: Report) -> str:
    if report.state is AttemptState.SUCCEEDED:
        return "exit code 0"
    if report.exit_code is not None:
        return f"ended with exit code {report.exit_code}"
    return report.failure.value if report.failure else report.state.value


def take_inventory(tx: Tx, out: AnswerDraft, cluster: str, held: Iterable[AttemptRef]) -> list[Attempt]:
    """Kill attempts that the agent should not hold; return the suspect attempts that it does hold."""
    suspects = []
    for ref in held:
        try:
            found = find_attempt(tx, cluster, ref)
        except Corrupt:  # damaged job: do nothing
            continue
        if found is None or not found[1].state.live:
            out.kills.append(ref)
        elif found[1].suspect:
            suspects.append(found[1])
    return suspects


def store_output(sync: SyncTransaction, piece: OutputPiece) -> None:
    """Store a piece of output; above the cap, keep the head and the tail.

    A piece that cannot be stored is acknowledged too, so that it is not sent again.
    """
    tx, out, cluster, cap = sync.tx, sync.out, sync.request.cluster, sync.core.settings.output_cap
    end = piece.offset + len(piece.data)
    if piece.stream not in STREAMS or not 0 <= piece.offset <= end <= MAX_OUTPUT_OFFSET:
        log.warning("output of %s of job %d from %s cannot be stored", piece.stream[:40], piece.ref.job, cluster)
        if 0 <= piece.offset <= end < 2**63:
            out.output_acks.append((piece.ref, piece.stream, end))
        return
    found = find_attempt(tx, cluster, piece.ref)
    if found is None:
        out.output_acks.append((piece.ref, piece.stream, end))
        return
    job, n, stream = piece.ref.job, piece.ref.n, piece.stream
    tx.append_output(job, n, stream, piece.offset, piece.data, sync.now)
    size = tx.output_size(job, n, stream)
    if size > cap:
        tx.cut_output(job, n, stream, cap // 2, size - cap // 2)
    out.output_acks.append((piece.ref, stream, max(size, end)))
    sync.fx.output = True

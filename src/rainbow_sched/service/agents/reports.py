"""What an agent says about attempts, applied inside one transaction: accepts, rejects, reports, inventory, output."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rainbow_sched.model.attempt import BEFORE_CONFIRM, LIVE, Attempt, AttemptState, Failure, is_allowed
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.job import Job, JobState
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.host_binding import MAX_NODES_TEXT, nodes_of
from rainbow_sched.service.agents.report_reader import storable
from rainbow_sched.service.agents.sync_messages import (
    AgentMessage,
    AgentReply,
    AttemptRef,
    AttemptReport,
    OutputPiece,
    UnknownReport,
    journal_of,
)
from rainbow_sched.service.effects import Effects
from rainbow_sched.service.scheduling.bid_scores import score_end, score_start
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
STREAMS = ("stdout", "stderr")
MAX_CODE = 64  # characters
MOST_OUTPUT = 2**53  # bytes: an offset beyond it is a mistake
BLAMES_CLUSTER = frozenset({Failure.LAUNCH, Failure.REFUSED, Failure.NODE})


def find(tx: Tx, cluster: str, ref: AttemptRef) -> tuple[Job, Attempt] | None:
    """The attempt that a message names, if the token is the right one and it was given to this cluster."""
    job, attempt = tx.job(ref.job), tx.attempt(ref.job, ref.n)
    if job is None or attempt is None or attempt.cluster != cluster or attempt.token != ref.token:
        return None
    return job, attempt


def accept(tx: Tx, fx: Effects, out: AgentReply, told: AgentMessage, ref: AttemptRef, now: float) -> None:
    """An agent has journaled an offer: confirm it, again if need be, unless it was withdrawn meanwhile."""
    found = find(tx, told.cluster, ref)
    if found is None or not found[1].state.live or found[0].state is not JobState.BOUND:
        out.kills.append(ref)
        return
    job, attempt = found
    if attempt.state in BEFORE_CONFIRM:
        lifecycle.progress(tx, fx, job, attempt, AttemptState.ACCEPTED, now, guarded=told.guards)
    out.confirms.append(ref)


def reject(tx: Tx, fx: Effects, out: AgentReply, told: AgentMessage, ref: AttemptRef, reason: str, now: float) -> None:
    """An agent hands an attempt back: the job goes to the next best cluster, if it is certain that it never ran."""
    found = find(tx, told.cluster, ref)
    if found is not None and found[1].state.live:
        lifecycle.end_attempt(tx, fx, *found, _handed_back(found[1], told.epoch, reason), now)
        fx.outcomes.append((told.cluster, False))
    out.acked.append(ref)


def _handed_back(attempt: Attempt, epoch: str, reason: str) -> lifecycle.AttemptEnd:
    """An agent can say "it was never here" of what it was offered itself; with another journal it cannot know."""
    if attempt.state in BEFORE_CONFIRM or journal_of(attempt.holder) == journal_of(epoch):
        return lifecycle.AttemptEnd(state=AttemptState.RETURNED, reason=storable(reason)[:1024])
    lost = "the agent that took it is gone with its journal, so how it ended is unknown; it was not started again"
    return lifecycle.AttemptEnd(state=AttemptState.FAILED, failure=Failure.UNKNOWN, reason=lost)


def report(tx: Tx, fx: Effects, out: AgentReply, cluster: str, told: AttemptReport, now: float) -> None:
    """News of an attempt. A stale token changes nothing and is answered by a kill; a repeated report by an ack."""
    found = find(tx, cluster, told.ref)
    ends = told.state not in LIVE
    if found is None:
        (out.acked if ends else out.kills).append(told.ref)
        return
    job, attempt = found
    if ends:
        out.acked.append(told.ref)
        if attempt.state is AttemptState.LOST and is_allowed(attempt.state, told.state):
            lifecycle.record_late_end(tx, fx, job, attempt, _ending(told, now), now)
        elif is_allowed(attempt.state, told.state) and job.attempt == attempt.n and not job.state.terminal:
            _end(tx, fx, job, attempt, told, now)
        return
    if not attempt.state.live:
        out.kills.append(told.ref)
        return
    if told.native_id and told.native_id != attempt.native_id:
        attempt = tx.update_attempt(attempt, attempt.state, now, native_id=told.native_id[:256])
    if (nodes := _nodes(told)) and nodes != attempt.nodes:
        attempt = tx.update_attempt(attempt, attempt.state, now, nodes=nodes)
        fx.nodes.append((cluster, attempt.token, nodes))
    if is_allowed(attempt.state, told.state):
        changes = {} if told.started_at is None else {"started_at": min(told.started_at, now)}
        moved = lifecycle.progress(tx, fx, job, attempt, told.state, now, **changes)
        if told.state is AttemptState.RUNNING:
            score_start(tx, fx, moved, now)
            fx.outcomes.append((cluster, True))


def store_unknown_report(tx: Tx, fx: Effects, out: AgentReply, cluster: str, told: UnknownReport, now: float) -> None:
    """Store a report that is not understood, once, and move nothing. The agent is told, and keeps it as well.

    Of an attempt on which nothing depends any more, the agent may forget it.
    """
    found = find(tx, cluster, told.ref)
    if found is None or not found[1].state.live:
        out.acked.append(told.ref)
        return
    lifecycle.add_unknown_report_event(tx, fx, *found, told.text, told.why, now)
    out.unknown.append(told.ref)


def _ending(told: AttemptReport, now: float) -> lifecycle.AttemptEnd:
    return lifecycle.AttemptEnd(
        state=told.state,
        exit_code=told.exit_code,
        failure=told.failure,
        reason=told.reason[:1024] or _plain(told),
        ended_at=None if told.ended_at is None else min(told.ended_at, now),
        started_at=None if told.started_at is None else min(told.started_at, now),
        nodes=_nodes(told),
        code=told.code[:MAX_CODE],
    )


def _nodes(told: AttemptReport) -> str:
    """The hostlist of a report, if it is one."""
    return told.nodes if len(told.nodes) <= MAX_NODES_TEXT and nodes_of(told.nodes) else ""


def _end(tx: Tx, fx: Effects, job: Job, attempt: Attempt, told: AttemptReport, now: float) -> None:
    how = _ending(told, now)
    if attempt.started_at is None and how.started_at is not None:
        score_start(tx, fx, attempt, how.started_at)
    if told.state is AttemptState.SUCCEEDED:
        score_end(tx, fx, job, attempt, how.started_at or attempt.started_at, how.ended_at or now)
    lifecycle.end_attempt(tx, fx, job, attempt, how, now)
    if how.code == WRONG_NODES:
        _count_wrong_nodes(tx, fx, attempt.cluster)
    blamed = told.state is AttemptState.RETURNED or told.failure in BLAMES_CLUSTER
    fx.outcomes.append((attempt.cluster, not blamed))


def _count_wrong_nodes(tx: Tx, fx: Effects, name: str) -> None:
    cluster = tx.cluster(name)
    if cluster is not None:
        fx.changed(tx.update_cluster(cluster.id, wrong_nodes=cluster.wrong_nodes + 1))


def _plain(told: AttemptReport) -> str:
    if told.state is AttemptState.SUCCEEDED:
        return "ended well"
    if told.exit_code is not None:
        return f"ended with exit code {told.exit_code}"
    return told.failure.value if told.failure else told.state.value


def take_inventory(tx: Tx, out: AgentReply, cluster: str, held: Iterable[AttemptRef]) -> list[Attempt]:
    """Kill what the agent should not hold; of what it does hold, the attempts that were suspect."""
    suspects = []
    for ref in held:
        try:
            found = find(tx, cluster, ref)
        except Corrupt:  # of a job whose stored row is damaged nothing is known: it is neither killed nor moved
            continue
        if found is None or not found[1].state.live:
            out.kills.append(ref)
        elif found[1].suspect:
            suspects.append(found[1])
    return suspects


def store_output(tx: Tx, fx: Effects, out: AgentReply, cluster: str, piece: OutputPiece, cap: int, now: float) -> None:
    """Keep a piece of output: the head and the tail of what is over the cap, the cut between them.

    A piece that cannot be kept is acknowledged all the same, so that it does not come again.
    """
    end = piece.offset + len(piece.data)
    if piece.stream not in STREAMS or not 0 <= piece.offset <= end <= MOST_OUTPUT:
        log.warning("output of %s of job %d from %s cannot be kept", piece.stream[:40], piece.ref.job, cluster)
        if 0 <= piece.offset <= end < 2**63:
            out.output_acks.append((piece.ref, piece.stream, end))
        return
    found = find(tx, cluster, piece.ref)
    if found is None:
        out.output_acks.append((piece.ref, piece.stream, end))
        return
    job, n, stream = piece.ref.job, piece.ref.n, piece.stream
    tx.append_output(job, n, stream, piece.offset, piece.data, now)
    size = tx.output_size(job, n, stream)
    if size > cap:
        tx.cut_output(job, n, stream, cap // 2, size - cap // 2)
    out.output_acks.append((piece.ref, stream, max(size, end)))
    fx.output = True

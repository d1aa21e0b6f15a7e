"""The rules of the protocol, each switched off: a simulation that does not notice would prove nothing.

Every mutant is a small change of the real code for the time of one test. Its name says
which promise of `docs/protocol.md` is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core import journal_records, mailbox, manager, reactor
from rainbow_sched.agent.core.values import STEPS, Absent, AttemptStep, LocalAttempt, PastAttempt, Phase, Unknown
from rainbow_sched.model.attempt import AttemptState, Failure, Outcome, outcome
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import SyncAnswer
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents import reports, sync
from rainbow_sched.service.agents.sync import SyncHandler
from rainbow_sched.service.assembly import Timers
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.submission import new_jobs
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.simulation.server import SimStore
from rainbow_sched.store.transaction import SqlTx
from tests.support.fault_rates import MANY_FAULTS

Patch = pytest.MonkeyPatch
CUT = FaultRates(partition=6.0)  # nothing but cut wires: what has to happen then happens without delay
DEAF = FaultRates(manager_error=0.6, agent_crash=8.0)
CRASHING = FaultRates(loss=0.3, agent_crash=20.0, long_outages=0.0)
REPLACED = FaultRates(takeover=4.0, partition=1.0)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule that is switched off, and the weather in which that matters."""

    change: Callable[[Patch], None]
    rates: FaultRates


MUTANTS: dict[str, Mutant] = {}


def mutant(rates: FaultRates = MANY_FAULTS) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def named(change: Callable[[Patch], None]) -> Callable[[Patch], None]:
        MUTANTS[change.__name__] = Mutant(change, rates)
        return change

    return named


# --- R0: one server ---


@mutant(REPLACED)
def goes_on_after_it_was_replaced(patch: Patch) -> None:
    patch.setattr(SimStore, "check_claim", lambda self, session: None)


# --- R1, R10: the store and submitting ---


@mutant()
def acknowledges_before_the_commit(patch: Patch) -> None:
    async def write(self: SimStore, work: Callable[..., Any], *, brief: bool = False) -> Any:
        if not brief:  # most submissions are brief
            return await original(self, work)

        async def later() -> None:
            await asyncio.sleep(0.5)
            self._check()
            self._disk.commit(self._writer, work)

        self._writer.begin()
        try:
            answer = work(SqlTx(self._writer))
        finally:
            self._writer.rollback()
        asyncio.get_running_loop().create_task(later())
        return answer

    original = SimStore.write
    patch.setattr(SimStore, "write", write)


@mutant()
def forgets_client_tokens(patch: Patch) -> None:
    patch.setattr(new_jobs, "_known", lambda tx, calls: {})


@mutant()
def leaves_dependents_waiting(patch: Patch) -> None:
    patch.setattr(lifecycle, "settle_dependents", lambda tx, fx, job, now: None)


# --- R2: fencing ---


@mutant()
def takes_any_report_for_the_newest_attempt(patch: Patch) -> None:
    def find_attempt(tx: Any, cluster: str, ref: Any) -> Any:
        job = tx.job(ref.job)
        attempt = None if job is None else tx.attempt(ref.job, job.attempt)
        return None if attempt is None else (job, attempt)

    patch.setattr(reports, "find_attempt", find_attempt)


@mutant()
def confirms_what_is_no_longer_on_offer(patch: Patch) -> None:
    def accept(sync: Any, ref: Any) -> None:
        found = reports.find_attempt(sync.tx, sync.request.cluster, ref)
        if found is not None and found[1].state in (AttemptState.OFFERED, AttemptState.LEASED):
            lifecycle.progress(sync.tx, sync.fx, *found, AttemptState.ACCEPTED, sync.now)
        sync.out.confirms.append(ref)

    patch.setattr(reports, "accept", accept)


@mutant()
def believes_reports_after_the_end(patch: Patch) -> None:
    def report(sync: Any, received: Any) -> None:
        found = reports.find_attempt(sync.tx, sync.request.cluster, received.ref)
        if found is not None and received.ends:
            job, how = found[0], reports._attempt_end(received, sync.now)
            if job.state in (JobState.BOUND, JobState.CANCELLING):
                lifecycle.end_attempt(sync.tx, sync.fx, job, lifecycle.live_attempt(sync.tx, job), how, sync.now)
            sync.out.acked.append(received.ref)
            return
        original(sync, received)

    original = reports.report
    patch.setattr(reports, "report", report)


# --- R4, R5, R6: confirm, intent, tags, unknown ---


@mutant()
def submits_before_the_confirm(patch: Patch) -> None:
    def stored(d: Any, event: e.RecordStored) -> None:
        original(d, event)
        if event.kind == "offer" and event.ref in d.attempts:
            mailbox._confirm(d, event.ref)

    original = reactor._record_stored
    patch.setitem(reactor._HANDLERS, e.RecordStored, stored)


@mutant()
def submits_before_the_intent_is_on_disk(patch: Patch) -> None:
    def confirm(d: Any, ref: Any) -> None:
        held = d.attempts.get(ref)
        if held is not None and d.step(held, AttemptStep.CONFIRM) is not None:
            intent = d.step(d.attempts[ref], AttemptStep.INTENT_STORED)
            manager.submit(d, intent)

    patch.setattr(mailbox, "_confirm", confirm)


@mutant()
def obeys_answers_that_come_again(patch: Patch) -> None:
    def take_answer(d: Any, answer: SyncAnswer) -> None:
        waited_for = {d.listening, d.in_flight.seq if d.in_flight is not None else None}
        if answer.ack in waited_for:
            original(d, answer)
        else:
            mailbox._apply_content(d, answer)

    original = mailbox.apply_answer
    patch.setattr(reactor, "apply_answer", take_answer)
    for phase in (Phase.INTENT, Phase.SUBMITTED, Phase.RUNNING):
        patch.setitem(STEPS, (phase, AttemptStep.CONFIRM), Phase.CONFIRMED)  # type: ignore[arg-type]  # a dict underneath


@mutant()
def submits_again_without_looking_for_the_tag(patch: Patch) -> None:
    def look_up(d: Any, held: LocalAttempt) -> None:
        if held.phase is Phase.INTENT and not held.busy:
            manager.submit(d, held)
        else:
            original(d, held)

    original = manager.look_up
    patch.setattr(manager, "look_up", look_up)


@mutant()
def takes_no_answer_for_no_job(patch: Patch) -> None:
    def looked_up(d: Any, event: e.LookedUp) -> None:
        answer = Absent() if isinstance(event.answer, Unknown) else event.answer
        original(d, replace(event, answer=answer))

    original = manager.looked_up
    patch.setitem(reactor._HANDLERS, e.LookedUp, looked_up)


@mutant()
def starts_forgotten_jobs_again(patch: Patch) -> None:
    def looked_up(d: Any, event: e.LookedUp) -> None:
        held = d.attempts.get(event.ref)
        if held is not None and held.busy == "lookup" and isinstance(event.answer, Absent):
            manager.submit(d, replace(held, phase=Phase.INTENT, busy=""))
        else:
            original(d, event)

    original = manager.looked_up
    patch.setitem(reactor._HANDLERS, e.LookedUp, looked_up)


@mutant()
def tells_an_end_only_once(patch: Patch) -> None:
    def let_go(d: Any) -> None:
        for ref, held in list(d.attempts.items()):
            if held.phase is Phase.FINISHED and d.in_flight is not None:
                d.forget(ref, PastAttempt(result=held.result))

    patch.setattr(reactor, "_forget_finished", let_go)


# --- R6a, R6c: reconciling and guards ---


@mutant()
def never_asks_what_a_new_agent_should_hold(patch: Patch) -> None:
    patch.setattr(mailbox, "_account_for", lambda d, ref: None)


@mutant()
def believes_a_strangers_absent(patch: Patch) -> None:
    patch.setattr(reports, "journal_of", lambda epoch: "the same")
    patch.setattr(sync, "journal_of", lambda epoch: "the same")

    def found_expected(d: Any, event: e.LookedUp) -> None:
        d.fresh = False
        original(d, event)

    original = manager._expected_looked_up
    patch.setattr(manager, "_expected_looked_up", found_expected)


@mutant(CUT)
def runs_on_without_contact(patch: Patch) -> None:
    def tick(d: Any, event: e.Tick) -> None:
        contact, d.contact_at = d.contact_at, None
        original(d, event)
        d.contact_at = contact

    original = reactor._tick
    patch.setitem(reactor._HANDLERS, e.Tick, tick)


# --- R7, R8: leases ---


@mutant()
def never_lets_a_lease_lapse(patch: Patch) -> None:
    async def lapse(self: Timers) -> None:
        return None

    patch.setattr(Timers, "_expire_leases", lapse)


@mutant()
def counts_its_own_downtime(patch: Patch) -> None:
    async def lapse(self: Timers) -> None:
        self.core.started_at = 0.0
        await original(self)

    original = Timers._expire_leases
    patch.setattr(Timers, "_expire_leases", lapse)


# --- R9: cancelling ---


@mutant(CRASHING)
def tells_a_command_only_once(patch: Patch) -> None:
    def outbox(self: SyncHandler, sync: Any, *more: Any) -> None:
        original(self, sync, *more)
        for command in sync.out.commands:
            sync.tx.ack_command(command.id)

    original = SyncHandler._add_work
    patch.setattr(SyncHandler, "_add_work", outbox)


@mutant(DEAF)
def forgets_a_cancel_in_a_crash(patch: Patch) -> None:
    def replay(record: Any, held: Any, past: Any) -> None:
        if record["kind"] != "cancel":
            original(record, held, past)

    original = journal_records._replay
    patch.setattr(journal_records, "_replay", replay)


@mutant()
def calls_it_cancelled_while_it_runs(patch: Patch) -> None:
    def cancel(tx: Any, fx: Any, job: Any, reason: str, now: float, *, expired: bool = False) -> Any:
        asked = original(tx, fx, job, reason, now, expired=expired)
        if asked.state is JobState.CANCELLING:
            how = lifecycle.AttemptEnd(state=AttemptState.CANCELLED, reason=reason)
            return lifecycle.end_attempt(tx, fx, asked, lifecycle.live_attempt(tx, asked), how, now)
        return asked

    original = lifecycle.cancel
    patch.setattr(lifecycle, "cancel", cancel)


# --- R11, R12: budgets, books ---


def instead(patch: Patch, kind: Outcome, rule: Callable[[Any], bool], cost: Callable[[Any], dict[str, int]]) -> None:
    """After an outcome of this kind, `rule` says whether there is a further run, and `cost` the job's counts then."""

    def further_run(job: Any, how: Any) -> Any:
        if outcome(how.state, how.failure) is not kind or not how.certainly_ended:
            return original(job, how)
        counts = {"failures": job.failures, "reruns_used": job.reruns_used} | cost(job)
        return (counts["failures"], counts["reruns_used"], "") if rule(job) else None

    original = lifecycle._further_run
    patch.setattr(lifecycle, "_further_run", further_run)


def one_retry(job: Any) -> dict[str, int]:
    return {"failures": job.failures + 1}


def one_rerun(job: Any) -> dict[str, int]:
    return {"reruns_used": job.reruns_used + 1}


@mutant()
def pays_for_unknown_outcomes_with_retries(patch: Patch) -> None:
    instead(patch, Outcome.UNKNOWN, lambda job: job.failures < job.terms.retries, one_retry)


@mutant()
def pays_for_known_failures_with_reruns(patch: Patch) -> None:
    instead(patch, Outcome.FAILED, lambda job: job.reruns_used < job.terms.reruns, one_rerun)


@mutant()
def lets_an_unknown_outcome_use_up_a_retry_too(patch: Patch) -> None:
    both = lambda job: one_retry(job) | one_rerun(job)  # noqa: E731
    instead(patch, Outcome.UNKNOWN, lambda job: job.reruns_used < job.terms.reruns, both)


@mutant()
def reruns_only_what_has_retries_left(patch: Patch) -> None:
    enough = lambda job: job.failures < job.terms.retries and job.reruns_used < job.terms.reruns  # noqa: E731
    instead(patch, Outcome.UNKNOWN, enough, one_rerun)


@mutant()
def reruns_without_a_budget(patch: Patch) -> None:
    instead(patch, Outcome.UNKNOWN, lambda job: job.terms.reruns > 0, one_rerun)


@mutant()
def retries_without_a_budget(patch: Patch) -> None:
    instead(patch, Outcome.FAILED, lambda job: job.terms.retries > 0, one_retry)


@mutant()
def reruns_preempted_runs_for_nothing(patch: Patch) -> None:
    def further_run(job: Any, how: Any) -> Any:
        if how.state is AttemptState.PREEMPTED:
            return job.failures, job.reruns_used, ""
        return original(job, how)

    original = lifecycle._further_run
    patch.setattr(lifecycle, "_further_run", further_run)


@mutant()
def takes_a_failed_node_for_a_failed_run(patch: Patch) -> None:
    def known(state: Any, failure: Any) -> Any:
        return Outcome.FAILED if failure is Failure.NODE else original(state, failure)

    original = lifecycle.outcome
    patch.setattr(lifecycle, "outcome", known)


@mutant()
def never_frees_what_was_taken(patch: Patch) -> None:
    patch.setattr(Fleet, "release", lambda self, name, fence: None)


@mutant()
def gives_away_what_is_taken(patch: Patch) -> None:
    def place(self: Fleet, name: str, fence: str, request: Any, size: Any) -> None:
        self.version += 1

    patch.setattr(Fleet, "place", place)

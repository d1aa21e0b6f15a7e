"""The rules about silent clusters and agents that were followed by others, each switched off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rainbow_sched.agent.core.state import StateDraft
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.job_state import JobEvent
from rainbow_sched.service import lifecycle
from rainbow_sched.service.agents.presence import Presence
from rainbow_sched.service.agents.sync import SyncHandler
from rainbow_sched.service.assembly import Timers
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.simulation.manager import Manager
from rainbow_sched.store.transaction import SqlTx
from tests.simulation.mutants import MUTANTS, mutant

__all__ = ["MUTANTS"]  # all of them: those of `mutants.py`, and these

Patch = pytest.MonkeyPatch
GONE = FaultRates(agent_crash=6.0, long_outages=0.9)  # agents that die and stay away
AWAY = FaultRates(partition=3.0, agent_crash=6.0, server_crash=0.3)  # clusters that are silent for long

# --- R7: runs that are given up ---


@mutant(AWAY)
def never_gives_up_a_silent_run(patch: Patch) -> None:
    async def lost(self: Timers) -> None:
        return None

    patch.setattr(Timers, "_end_lost_runs", lost)


@mutant(AWAY)
def gives_up_before_the_time(patch: Patch) -> None:
    def waits(self: Timers, tx: Any, attempt: Any) -> float:
        return original(self, tx, attempt) / 2

    original = Timers._patience_of
    patch.setattr(Timers, "_patience_of", waits)


@mutant(AWAY)
def counts_its_own_downtime_as_silence(patch: Patch) -> None:
    patch.setattr(Presence, "silence", lambda self, cluster, now: now - self._last_contact.get(cluster, 0.0))


@mutant(AWAY)
def runs_again_what_may_still_run(patch: Patch) -> None:
    def waits(self: Timers, tx: Any, attempt: Any) -> float:
        return lifecycle.require_job(tx, attempt.job).terms.patience(self.core.settings.run_lease)

    def further_run(job: Any, how: Any) -> Any:
        return original(job, replace(how, certainly_ended=True))

    original = lifecycle._further_run
    patch.setattr(Timers, "_patience_of", waits)
    patch.setattr(lifecycle, "_further_run", further_run)


@mutant(GONE)
def believes_in_a_guard_that_is_not_there(patch: Patch) -> None:
    patch.setattr(Manager, "_out_of_touch", lambda self, entry: False)


@mutant(AWAY)
def gives_a_rerun_back_when_the_lost_run_is_heard_of(patch: Patch) -> None:
    def found(tx: Any, fx: Any, job: Any, attempt: Any, how: Any, now: float) -> Any:
        fewer = replace(job, reruns_used=max(0, job.reruns_used - 1))
        return original(tx, fx, fewer, attempt, how, now)

    original = lifecycle.record_late_end
    patch.setattr(lifecycle, "record_late_end", found)


@mutant(AWAY)
def takes_a_late_success_for_the_newer_attempts(patch: Patch) -> None:
    def found(tx: Any, fx: Any, job: Any, attempt: Any, how: Any, now: float) -> Any:
        tx.update_attempt(attempt, how.state, now)
        if how.state is AttemptState.SUCCEEDED and not job.state.terminal:
            lifecycle._finished(tx, fx, job, JobEvent.SUCCEEDED, how, now)

    patch.setattr(lifecycle, "record_late_end", found)


@mutant(AWAY)
def starts_what_may_have_been_given_up(patch: Patch) -> None:
    original = Manager._out_of_touch
    patch.setattr(StateDraft, "out_of_contact", lambda self, held: False)
    patch.setattr(Manager, "_out_of_touch", lambda self, entry: entry.run is not None and original(self, entry))


# --- R3: one process speaks for a cluster ---


@mutant()
def listens_to_processes_that_were_followed(patch: Patch) -> None:
    def refuse_second(self: SyncHandler, received: Any, before: Any) -> None:
        self._superseded_epochs.clear()
        original(self, received, before)

    original = SyncHandler._refuse_second_agent
    patch.setattr(SyncHandler, "_refuse_second_agent", refuse_second)
    patch.setattr(SqlTx, "epoch_is_over", lambda self, cluster, epoch: False)

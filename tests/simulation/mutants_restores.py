"""R14, rule by rule: what a restored server and its agents must do so that nothing runs twice, each switched off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rainbow_sched.agent.core import mailbox
from rainbow_sched.model.generation import MIN_SKIPPED_IDS, SKIPPED_ATTEMPTS
from rainbow_sched.service.agents import recall
from rainbow_sched.service.maintenance import restore as restoring
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.store.tables import generations
from rainbow_sched.store.tables.generations import GenerationTable
from rainbow_sched.store.tables.table import FIRST_ATTEMPT
from tests.simulation.mutants import mutant
from tests.simulation.mutants_reports import MUTANTS

__all__ = ["MUTANTS"]  # all of them: those of the other files, and these

Patch = pytest.MonkeyPatch
RESTORED = FaultRates(restore=8.0, partition=3.0, agent_crash=3.0, loss=0.1)
UNCLEAR = FaultRates(restore=8.0, partition=3.0, agent_crash=3.0, loss=0.1, server_crash=2.0, journal_lost=1.0)
AWAY = FaultRates(restore=8.0, partition=8.0)


@mutant(RESTORED)
def tells_a_restored_server_only_what_is_held(patch: Patch) -> None:
    whole = mailbox._recall

    def held(d: Any) -> Any:
        received = whole(d)
        return replace(received, attempts=tuple(one for one in received.attempts if one.ref in d.attempts))

    patch.setattr(mailbox, "_recall", held)


@mutant(RESTORED)
def takes_in_no_attempt_that_the_copy_lacks(patch: Patch) -> None:
    patch.setattr(recall, "_take_unknown_attempt", lambda taking, known, job: None)


@mutant(AWAY)
def takes_back_what_was_offered_before_the_restore(patch: Patch) -> None:
    begin = GenerationTable.begin_restore

    def with_leases(self: GenerationTable, id: str, at: float, *more: Any) -> Any:
        restore = begin(self, id, at, *more)
        for row in self.restore_reports():
            self.resume_leases(row.cluster_id, at)
        return restore

    patch.setattr(GenerationTable, "begin_restore", with_leases)


@mutant(UNCLEAR)
def offers_an_agent_again_what_its_lost_journal_may_have_begun(patch: Patch) -> None:
    patch.setattr(recall, "withdraw_unconfirmed", lambda *_: None)


@mutant(RESTORED)
def goes_on_without_asking_the_agents(patch: Patch) -> None:
    async def never(core: Any, cluster: str, mark: str) -> bool:
        return False

    patch.setattr(restoring, "recall_needed", never)


@mutant(RESTORED)
def gives_the_ids_of_an_earlier_restore_again(patch: Patch) -> None:
    patch.setattr(generations, "ids_to_skip", lambda seen, last_event: MIN_SKIPPED_IDS)


@mutant(RESTORED)
def gives_the_attempts_of_an_earlier_restore_again(patch: Patch) -> None:
    begin = GenerationTable.begin_restore

    def at_the_same_number(self: GenerationTable, id: str, at: float, *more: Any) -> Any:
        given = self.db.counter(FIRST_ATTEMPT)
        restore = begin(self, id, at, *more)
        self.db.allocate(FIRST_ATTEMPT, given + SKIPPED_ATTEMPTS - self.db.counter(FIRST_ATTEMPT))
        return restore

    patch.setattr(GenerationTable, "begin_restore", at_the_same_number)

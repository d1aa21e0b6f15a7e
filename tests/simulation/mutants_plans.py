"""The rules about plans that the store refuses, each switched off; see `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rainbow_sched.service.core import Core
from rainbow_sched.service.scheduling import plan
from rainbow_sched.service.scheduling.pending_jobs import PendingJobs
from rainbow_sched.service.scheduling.plan import ApplyRefused, Reservations
from rainbow_sched.service.submission import intake
from rainbow_sched.simulation.faults import FaultRates
from tests.simulation.mutants import Patch, mutant
from tests.simulation.mutants_restores import MUTANTS

__all__ = ["MUTANTS"]  # all of them: those of the other files, and these

REFUSING = FaultRates(apply_refused=0.5, server_crash=1.0)


@mutant(REFUSING)
def keeps_what_a_refused_plan_reserved(patch: Patch) -> None:
    patch.setattr(Reservations, "_release", lambda self, fences: None)


@mutant(REFUSING)
def applies_a_refused_plan_again(patch: Patch) -> None:
    async def twice(core: Core, reserved: Reservations, work: Callable[..., Any], *, brief: bool = False) -> Any:
        answer = await original(core, reserved, work, brief=brief)
        if not isinstance(answer, ApplyRefused) or answer.is_final:
            return answer
        reserved.__exit__()  # with the fleet as it was when it was planned
        return await original(core, reserved, work, brief=brief)

    original = plan.apply
    patch.setattr(plan, "apply", twice)
    patch.setattr(intake, "apply", twice)


@mutant(REFUSING)
def forgets_jobs_whose_plans_were_refused(patch: Patch) -> None:
    patch.setattr(PendingJobs, "defer", lambda self, job, now: 0.0)


@mutant(REFUSING)
def keeps_a_plan_that_was_not_stored(patch: Patch) -> None:
    async def transact(self: Core, work: Any, *, brief: bool = False, durable: Any = lambda: None) -> Any:
        durable()
        return await original(self, work, brief=brief)

    original = Core.transact
    patch.setattr(Core, "transact", transact)

"""The rules about nodes, each switched off; see `mutants.py`."""

from __future__ import annotations

from typing import Any

from rainbow_sched.service.agents import offers
from rainbow_sched.service.agents.host_binding import UNBOUND_OFFER, bound_offer
from rainbow_sched.service.agents.offers import Bindings
from rainbow_sched.service.scheduling import plan
from rainbow_sched.simulation import manager
from tests.simulation.mutants import Patch, mutant
from tests.simulation.mutants_silence import MUTANTS

__all__ = ["MUTANTS"]  # all of them: those of the other files, and these

# --- R13: jobs run where they were matched ---


@mutant()
def offers_jobs_without_their_hosts(patch: Patch) -> None:
    patch.setattr(Bindings, "hosts", lambda self, attempt: ())


@mutant()
def gives_bound_jobs_to_agents_that_keep_none(patch: Patch) -> None:
    def to_anybody(fleet: Any, cluster: str, request: Any, rules: Any, fence: str = "") -> Any:
        return bound_offer(fleet, cluster, request, rules, fence) if rules is not None else UNBOUND_OFFER

    patch.setattr(offers, "bound_offer", to_anybody)
    patch.setattr(plan, "clusters_without_binding", lambda fleet, request: {})


@mutant()
def starts_jobs_on_whatever_nodes_it_got(patch: Patch) -> None:
    patch.setattr(manager, "checked", lambda entry: True)

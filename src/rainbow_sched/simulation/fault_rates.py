"""Fault rates of a simulated world, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """Probabilities and rates of faults; by default there are none."""

    loss: float = 0.0  # of a message in either direction
    doubling: float = 0.0
    slow: float = 0.0  # chance that a message or a step takes seconds instead of milliseconds
    partition: float = 0.0  # rates are events per minute and per object
    server_crash: float = 0.0
    takeover: float = 0.0  # a server is suspended and resumes after another one has taken over
    agent_crash: float = 0.0
    long_outages: float = 0.3  # chance that what crashed is away for longer than every lease
    journal_lost: float = 0.0  # chance that a crashed agent comes back without its journal
    reboot: float = 0.0  # chance that a crashed agent's machine restarted, and its clock with it
    manager_error: float = 0.0  # chance that a request to a manager fails
    manager_forgets: float = 0.0  # chance that a manager forgets a job soon after its end
    refusal: float = 0.0  # chance that a site rejects an offer
    disk_full: float = 0.0
    clock_jump: float = 0.0  # of the server's wall clock, by up to an hour
    older_server: float = 0.0  # chance that a server process does not know every state that agents report
    restore: float = 0.0  # of the server's database from an older copy
    apply_refused: float = 0.0  # chance that the store refuses a plan, as if a cluster or a job had just changed
    manager_loses: float = 0.0  # chance that a manager loses an accepted job before it starts


NO_FAULTS = FaultRates()
MANY_FAULTS = FaultRates(
    loss=0.1,
    doubling=0.2,
    slow=0.1,
    partition=2.0,
    server_crash=2.0,
    agent_crash=5.0,
    journal_lost=0.1,
    reboot=0.1,
    manager_error=0.2,
    manager_forgets=0.6,
    refusal=0.1,
    clock_jump=1.0,
)


def draw_rates(rng: Random, later: Random) -> FaultRates:
    """Draw the rates of one world; most worlds have several kinds of faults.

    Newer kinds are drawn from `later`, so that the older faults of a seed do not change.
    """

    def some(chance: float, low: float, high: float, rng: Random = rng) -> float:
        return rng.uniform(low, high) if rng.random() < chance else 0.0

    return FaultRates(
        loss=some(0.6, 0.01, 0.3),
        doubling=some(0.6, 0.02, 0.3),
        slow=some(0.7, 0.01, 0.2),
        partition=some(0.5, 0.5, 3.0),
        server_crash=some(0.6, 0.5, 5.0),
        agent_crash=some(0.6, 0.5, 4.0),
        journal_lost=some(0.1, 0.1, 0.5),
        reboot=some(0.2, 0.1, 0.5),
        manager_error=some(0.6, 0.02, 0.3),
        manager_forgets=some(0.5, 0.1, 0.9),
        refusal=some(0.4, 0.05, 0.4),
        disk_full=some(0.2, 0.3, 2.0),
        clock_jump=some(0.4, 0.5, 3.0),
        older_server=some(0.3, 0.2, 0.8, later),
        manager_loses=some(0.3, 0.02, 0.2, later),
        takeover=some(0.3, 0.5, 3.0, later),
        restore=some(0.2, 2.0, 6.0, later),
        apply_refused=some(0.4, 0.05, 0.6, later),
    )

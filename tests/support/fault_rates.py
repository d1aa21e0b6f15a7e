"""Fault rates of a world in which many kinds of faults happen."""

from __future__ import annotations

from rainbow_sched.simulation.faults import FaultRates

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

"""Each rule of the protocol, switched off, is noticed within 500 worlds; so green worlds mean something."""

from __future__ import annotations

import pytest

from rainbow_sched.simulation.world import run
from tests.simulation.mutants_plans import MUTANTS

ENOUGH = 500
NOT_A_PROMISE = ("nothing breaks",)  # an internal error of the patched code proves nothing


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 15


@pytest.mark.timeout(240)  # the rarest of them needs some 300 worlds, a minute of processor
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    for seed in range(ENOUGH):
        with monkeypatch.context() as patch:
            mutant.change(patch)
            violation = run(seed, mutant.rates).violation
        if violation is None:
            continue
        assert violation.rule not in NOT_A_PROMISE, f"the mutant itself is broken: {violation}"
        if run(seed, mutant.rates).violation is None:  # with the rule switched on, the same world keeps every promise
            print(f"{name}: seed {seed}: {violation}")
            return
    pytest.fail(f"{ENOUGH} worlds did not notice that the server or the agent {name.replace('_', ' ')}")

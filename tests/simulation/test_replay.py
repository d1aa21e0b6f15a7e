"""A seed is a world: run again, in this process or in another, it takes the same steps."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rainbow_sched.simulation.world import run
from tests.simulation.mutants_restores import MUTANTS
from tests.support.fault_rates import MANY_FAULTS

DIGESTS = "from rainbow_sched.simulation.world import run; print(*(run(seed).digest for seed in range(5)))"


@pytest.mark.timeout(60)
def test_another_process_with_other_hashes_takes_the_same_steps() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=50,
        ).stdout
        for hashes in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(set(told[0].split())) == 5, "different seeds are different worlds"


@pytest.mark.timeout(60)
def test_a_world_that_breaks_a_promise_breaks_it_again_at_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["submits_before_the_confirm"].change(monkeypatch)
    seed = next(seed for seed in range(100) if run(seed, MANY_FAULTS).violation is not None)
    first, again = run(seed, MANY_FAULTS), run(seed, MANY_FAULTS)
    assert first.violation is not None
    assert (first.digest, first.violation) == (again.digest, again.violation)
    assert first.violation.rule in first.trace[-2], "the trace leads up to it"

"""The rules of docs/protocol.md hold in every state of a small model, and each of them is needed."""

from __future__ import annotations

import pytest

from tests.simulation.protocol_model import Rules, search

SOUND = {
    "the usual faults": Rules(),
    "runs that are given up": Rules(lost=True),
    "jobs that are given wrong nodes": Rules(wrong_nodes=True),
    "a restored backup": Rules(attempts=2, restore=True, wrong_nodes=True),
}
BROKEN = {
    "submits before the accept is confirmed": Rules(confirm=False),
    "submits again without a look for the tag": Rules(look_up=False),
    "believes attempts that do not count any more": Rules(fence=False, lost=True),
    "starts the command on whatever nodes it got": Rules(wrong_nodes=True, check_nodes=False),
    "forgets what ended before the restore": Rules(attempts=2, restore=True, remember=False),
    "decides before every cluster has reported": Rules(attempts=2, restore=True, wait_for_reports=False),
    "keeps attempts that a newer one has followed": Rules(attempts=2, restore=True, supersede=False),
    "confirms what the backup never offered": Rules(attempts=2, restore=True, adopt_confirmed_only=False),
}


@pytest.mark.parametrize("rules", SOUND.values(), ids=SOUND)
def test_every_promise_holds_in_every_state(rules: Rules) -> None:
    verdict = search(rules)
    assert verdict.broken is None, f"{verdict.broken}: {' > '.join(verdict.trace)}"
    assert not verdict.stuck, f"the job can never end: {' > '.join(verdict.trace)}"
    assert verdict.states > 10_000


@pytest.mark.parametrize("rules", BROKEN.values(), ids=BROKEN)
def test_a_rule_that_is_switched_off_has_a_counterexample(rules: Rules) -> None:
    assert search(rules).broken is not None

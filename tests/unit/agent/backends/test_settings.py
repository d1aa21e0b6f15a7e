"""What every backend is built from: times that are numbers, and prices that make a cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.agent.backends.base import BackendSettings, Prices
from rainbow_sched.agent.backends.common.exit_results import exited, shell_code
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Invalid


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e999"])
def test_a_time_that_is_none_is_refused_by_the_options_name(text: str, tmp_path: Path):
    settings = BackendSettings(cluster="c", directory=tmp_path, options={"interval": text, "other": "2.5"})
    with pytest.raises(Invalid, match=r"-O interval must be a number of seconds"):
        settings.seconds("interval", 1.0)
    assert (settings.seconds("other", 1.0), settings.seconds("absent", 7.0)) == (2.5, 7.0)


def test_the_cost_of_a_job_is_unknown_only_if_its_length_counts():
    assert Prices(core_hour=2.0, gpu_hour=10.0).cost(cores=4, nodes=1, gpus=0, duration=1800.0) == 4.0
    assert Prices(gpu_hour=10.0).cost(cores=4, nodes=1, gpus=0, duration=None) == 0.0
    assert Prices(core_hour=2.0).cost(cores=4, nodes=1, gpus=0, duration=None) is None
    assert Prices(node_hour=3.0).state() == {"cost_per_node_hour": 3.0}


@pytest.mark.parametrize(("code", "reason"), [(3, "exit code 3"), (128, "exit code 128"), (137, "ended by signal 9")])
def test_a_code_says_how_a_job_ended(code: int, reason: str):
    ended = exited(code, started=1.0, ended=2.0)
    assert (ended.state, ended.failure, ended.exit_code) == (AttemptState.FAILED, Failure.EXIT, code)
    assert (ended.reason, ended.started_at, ended.ended_at) == (reason, 1.0, 2.0)
    assert exited(0).state is AttemptState.SUCCEEDED
    assert (shell_code(-9), shell_code(4)) == (137, 4)

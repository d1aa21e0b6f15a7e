"""An agent that runs for years remembers the newest jobs that it told of, and no more."""

from __future__ import annotations

from pathlib import Path

from rainbow_sched.agent.backends.common.finished_tags import FinishedTags


def test_the_oldest_go_while_the_agent_runs_and_a_restart_finds_the_rest(tmp_path: Path) -> None:
    gone = FinishedTags(tmp_path / "forgotten", max_tags=10)
    for n in range(1_000):
        gone.add(f"rb-{n}-1")
        gone.add(f"rb-{n}-1")
        assert len(gone.tags) <= 20
    assert all(f"rb-{n}-1" in gone for n in range(990, 1_000))
    again = FinishedTags(tmp_path / "forgotten", max_tags=10)
    again.read()
    assert list(again.tags) == list(gone.tags)
    assert len((tmp_path / "forgotten").read_text().split()) == len(gone.tags)


def test_a_first_start_finds_nothing(tmp_path: Path) -> None:
    gone = FinishedTags(tmp_path / "forgotten")
    gone.read()
    assert "rb-1-1" not in gone

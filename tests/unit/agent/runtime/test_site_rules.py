"""The site keeps its say: whose jobs, which jobs, and as whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rainbow_sched.agent.main import unit_text
from rainbow_sched.agent.options import AgentOptions, credential, need_credential, refuse_root
from rainbow_sched.agent.runtime.link import CONFLICT_TIMEOUT_SECONDS, SLOW_RETRY_SECONDS, Refusals
from rainbow_sched.agent.runtime.site_rules import SiteRules
from rainbow_sched.client.settings import ClientSettings
from rainbow_sched.model.errors import Conflict, Denied, Invalid, Unauthenticated, Unavailable
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from rainbow_sched.protocol.messages import AttemptRef, Offer
from rainbow_sched.selection.expressions import compile_expression


def a_request(nodes: int = 1, cores: int = 1, gpus: int = 0) -> Request:
    inside = [Level(type="core", count=Count(cores))]
    if gpus:
        inside.append(Level(type="gpu", count=Count(gpus)))
    level = Level(type="node", count=Count(nodes), inside=tuple(inside))
    return Request(groups=(Group(levels=(level,)),), tasks=(Task(command=("true",)),), duration=60.0)


def an_offer(owner: str = "user:ana", **labels: str) -> Offer:
    return Offer(ref=AttemptRef(1, 1, "t"), owner=owner, terms=json.dumps({"labels": labels}))


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("nodes", False),  # a number is neither true nor false
        ("nodes <= 4", True),
        ("nodes > 4", False),
        ("cores == 8 && gpus == 4", True),
        ('labels.team == "bio"', True),
        ('labels.team == "chem"', False),
        ("duration < 120", True),
        ("cores", False),
    ],
)
def test_only_jobs_for_which_the_expression_holds_are_taken(text: str, taken: bool):
    refused = SiteRules(accept=compile_expression(text)).refuses(
        an_offer(team="bio"), a_request(nodes=2, cores=4, gpus=2)
    )
    assert (refused is None) is taken
    assert taken or text in str(refused)


def test_a_job_that_lacks_what_the_expression_speaks_of_is_handed_back_with_that_reason():
    refused = SiteRules(accept=compile_expression('labels.team == "bio"')).refuses(an_offer(), a_request())
    assert "labels.team" in str(refused)


def test_only_allowed_users_run_here():
    rules = SiteRules(allow=frozenset({"ana"}))
    assert rules.refuses(an_offer("user:ana"), a_request()) is None
    assert rules.refuses(an_offer("ana"), a_request()) is None
    assert "eve" in str(rules.refuses(an_offer("user:eve"), a_request()))
    assert rules.refuses(an_offer("group:ana"), a_request()) is not None


def options(tmp_path: Path, **more: object) -> AgentOptions:
    return AgentOptions(cluster="here", state_dir=tmp_path, **more)


def test_root_is_refused_unless_told(tmp_path: Path):
    with pytest.raises(Denied, match="--run-as-root"):
        refuse_root(options(tmp_path), 0)
    refuse_root(options(tmp_path, run_as_root=True), 0)
    refuse_root(options(tmp_path), 1000)


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path):
    path = tmp_path / "s"
    path.write_text("secret\n")
    path.chmod(0o644)
    with pytest.raises(Invalid, match="chmod 600"):
        credential(options(tmp_path, secret_file=str(path)), ClientSettings(), {})
    path.chmod(0o600)
    assert credential(options(tmp_path, secret_file=str(path)), ClientSettings(), {}) == "secret"


def test_the_secret_of_another_cluster_is_never_used(tmp_path: Path):
    settings = ClientSettings(cluster="there", cluster_secret="s", origins={"cluster_secret": "config"})
    found = credential(options(tmp_path), settings, {})
    with pytest.raises(Unauthenticated, match="--secret-file"):
        need_credential(found, options(tmp_path))


def test_a_wrong_credential_at_start_is_given_up_and_later_only_retried_slowly():
    at_start = Refusals()
    for _ in range(2):
        assert at_start.pause(Denied("no"), 0.0) == 1.0
    with pytest.raises(Denied):
        at_start.pause(Denied("no"), 0.0)
    later = Refusals()
    later.answered()
    assert [later.pause(Unauthenticated("no"), 0.0) for _ in range(9)] == [SLOW_RETRY_SECONDS] * 9


def test_a_second_agent_gives_up_while_an_unreachable_server_is_tried_for_ever():
    refusals = Refusals()
    assert refusals.pause(Conflict("another"), 100.0) is not None
    with pytest.raises(Conflict):
        refusals.pause(Conflict("another"), 100.0 + CONFLICT_TIMEOUT_SECONDS)
    assert all(refusals.pause(Unavailable("away"), float(at)) is None for at in range(0, 100_000, 1000))


def test_the_unit_leaves_jobs_running_and_quotes_every_word():
    text = unit_text("here", ["--accept", 'labels.x == "50%" && "$HOME"'], ["/opt/rainbow"])
    assert "KillMode=process" in text
    assert 'ExecStart="/opt/rainbow" "agent" "--cluster" "here" "--accept"' in text
    assert '"labels.x == \\"50%%\\" && \\"$$HOME\\""' in text
    with pytest.raises(Invalid):
        unit_text("here", ["a\nExecStartPre=evil"], ["rainbow"])

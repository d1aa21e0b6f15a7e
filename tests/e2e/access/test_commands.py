"""The access commands against a real server, as an administrator and a user type them."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from tests.support.calls import Calls
from tests.support.server_process import RAINBOW, ServerProcess, a_server_process
from tests.support.service import a_graph

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> ServerProcess:
    """A server with two clusters."""
    with a_server_process(tmp_path_factory.mktemp("lab")) as server:
        with server.channel() as channel:
            for name in ("perl", "corona"):
                Calls(channel, server.admin_token).register(name, a_graph())
        yield server


def test_a_user_gets_a_token_uses_it_and_loses_it(lab: ServerProcess) -> None:
    lab.run("group", "add", "gpu", "--cluster", "perl")
    lab.run("group", "add", "physics", "--allow", "submit:@gpu")
    lab.run("user", "add", "ana", "--group", "physics")
    made = lab.run("token", "create", "--user", "ana", "--scope", "submit:*", "--scope", "job:read:own", "-o", "json")
    token = json.loads(made.stdout)
    who = json.loads(lab.run("whoami", "-o", "json", token=token["text"]).stdout)
    assert (who["name"], sorted(who["scopes"])) == ("ana", ["job:read:own", "submit:perl"])
    assert [row["name"] for row in listed(lab, "clusters", token["text"])] == ["perl"]
    lab.run("token", "revoke", token["token"]["id"])
    assert lab.run("whoami", token=token["text"], check=False).returncode == 5


def test_a_disabled_user_sees_nothing_and_is_listed_as_disabled(lab: ServerProcess) -> None:
    lab.run("user", "add", "bob")
    token = lab.run("token", "create", "--user", "bob", "--scope", "submit:*").stdout.strip()
    lab.run("user", "disable", "bob")
    assert lab.run("jobs", token=token, check=False).returncode == 5
    users = {row["name"]: row for row in listed(lab, "users", lab.admin_token, "user", "list")}
    assert users["bob"]["disabled"]


def test_users_cannot_do_what_administrators_do(lab: ServerProcess) -> None:
    lab.run("user", "add", "eve")
    token = lab.run("token", "create", "--user", "eve", "--scope", "submit:*").stdout.strip()
    for command in (["user", "list"], ["group", "list"], ["audit"], ["user", "add", "mallory"]):
        assert lab.run(*command, token=token, check=False).returncode == 5, command
    assert lab.run("token", "create", "--scope", "admin", token=token, check=False).returncode == 5


def test_a_join_token_registers_one_cluster(lab: ServerProcess, tmp_path: Path) -> None:
    graph = tmp_path / "edge.json"
    graph.write_bytes(a_graph())
    join = lab.run("token", "create", "--join", "--name", "edge*").stdout.strip()
    register = ["register", "cluster", "--nodes-json", str(graph), "--cluster-name"]
    lab.run(*register, "edge1", RAINBOW_REGISTRATION_SECRET=join)
    assert lab.run(*register, "edge2", check=False, RAINBOW_REGISTRATION_SECRET=join).returncode == 5


def test_login_keeps_a_token_that_works_in_a_file_of_ones_own(lab: ServerProcess, tmp_path: Path) -> None:
    environment = lab.environment() | {"XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        [*RAINBOW, "login", lab.address],
        env=environment,
        input=lab.admin_token + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=True,
    )
    assert "you are admin" in done.stderr
    kept = tmp_path / "rainbow/rainbow-config.yaml"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    after = subprocess.run(
        [*RAINBOW, "whoami"], env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True
    )
    assert after.stdout.startswith("admin")
    wrong = subprocess.run(
        [*RAINBOW, "login"], env=environment, input="rbw_x\n", capture_output=True, text=True, timeout=60,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert wrong.returncode == 5
    assert "rbw_x" not in wrong.stderr
    assert lab.admin_token in kept.read_text()


def test_the_audit_log_tells_of_changes_and_refusals_and_its_chain_holds(lab: ServerProcess) -> None:
    lab.run("jobs", token="rbw_usr_aaaaaaaaaaaa_" + "A" * 43, check=False)
    lab.run("drain", "corona", "-m", "dust")
    lab.run("undrain", "corona")
    lines = listed(lab, "lines", lab.admin_token, "audit", "-n", "1000")
    verbs = {(line["verb"], line["outcome"]) for line in lines}
    assert {("cluster.register", "done"), ("cluster.standing", "done")} <= verbs
    assert "all digests are valid" in lab.run("audit", "--verify").stdout


def listed(server: ServerProcess, key: str, token: str, *command: str) -> list[dict[str, object]]:
    """The rows of a listing."""
    found: list[dict[str, object]] = json.loads(server.run(*(command or (key,)), "-o", "json", token=token).stdout)[key]
    return found


def test_a_lost_administrators_token_is_made_anew_beside_the_database(tmp_path: Path) -> None:
    with a_server_process(tmp_path) as server:
        data = str(server.folder / "data")
        server.run("user", "add", "root2", "--allow", "admin")
        other = server.run("token", "create", "--user", "root2", "--scope", "admin").stdout.strip()
        server.run("user", "disable", "admin", token=other)
        lost = server.admin_token
        assert server.run("whoami", check=False).returncode == 5
        busy = server.run("server", "admin-token", "--data-dir", data, check=False)
        assert "stop that server first" in busy.stderr, "with SQLite the server has the database for itself"
        server.stop()
        assert server.run("server", "admin-token", "--data-dir", data).stdout.strip() == f"{data}/admin.token"
        assert stat.S_IMODE((server.folder / "data/admin.token").stat().st_mode) == 0o600
        server.start()
        assert server.admin_token != lost
        assert "admin" in server.run("whoami").stdout
        [line] = server.run("audit", "--verb", "token.recover", "-o", "jsonl").stdout.splitlines()
        assert json.loads(line)["actor"] == "server"
        assert server.admin_token not in line
        assert server.run("audit", "--verify").returncode == 0
        missing = server.run("server", "admin-token", "--data-dir", str(tmp_path / "none"), check=False)
        assert missing.returncode == 4


def test_a_cluster_gets_rules_shows_them_and_holds_to_them(lab: ServerProcess) -> None:
    lab.run("user", "add", "rita", "--allow", "submit:*")
    token = lab.run(
        "token", "create", "--user", "rita", "--scope", "submit:*", "--scope", "job:read:own"
    ).stdout.strip()
    said = lab.run("rules", "corona", "--max-nodes", "1", "--max-time", "2h", "--max-queued", "5").stdout
    assert said == "corona: at most 1 nodes and 2h per job; at most 5 jobs per user\n"
    assert "rules       at most 1 nodes and 2h per job" in lab.run("clusters", "corona", token=token).stdout
    asked = ("-M", "corona", "-N2", "-t", "1h", "--", "true")
    plan = lab.run("plan", *asked, token=token, check=False)
    assert "allows at most 1 nodes per job; this job asks for 2" in plan.stdout
    taken = lab.run("submit", *asked, token=token)
    assert "corona: allows at most 1 nodes per job; this job asks for 2" in taken.stderr
    assert "allows at most 1 nodes" in lab.run("explain", taken.stdout.strip(), token=token, check=False).stdout
    assert lab.run("rules", "corona", "--clear", "--allow-users", "bob").stdout == "corona: users bob\n"
    row = json.loads(lab.run("clusters", "corona", "-o", "json").stdout)["cluster"]
    assert row["rules"] == {"users": ["bob"]}
    assert lab.run("clusters", "corona", token=token, check=False).returncode == 4
    assert lab.run("submit", "-M", "corona", "--", "true", token=token, check=False).returncode == 4
    assert lab.run("rules", "corona", "--clear", token=token, check=False).returncode == 5
    assert lab.run("rules", "corona", "--clear").stdout == "corona: no rules\n"

"""Use and misuse one credential of each kind, then search for it in files, logs and messages."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path

import grpc
import pytest

from rainbow_sched.pb.prototype import rainbow_pb2, rainbow_pb2_grpc
from rainbow_sched.pb.v2 import access_pb2, access_pb2_grpc, clusters_pb2, jobs_pb2
from tests.support.calls import Calls, bearer
from tests.support.server_process import SECRET, ServerProcess, a_server_process
from tests.support.service import a_graph

pytestmark = pytest.mark.timeout(180)


class Canaries:
    """Secrets by kind, and all answers to callers without them."""

    def __init__(self, server: ServerProcess, channel: grpc.Channel) -> None:
        self.server, self.channel = server, channel
        self.access = access_pb2_grpc.AccessStub(channel)
        self.calls = Calls(channel, server.admin_token)
        self.said: list[str] = []
        self.secrets = {"registration": SECRET, "admin": server.admin_token}

    def plant(self) -> None:
        """Make one of each kind."""
        made = self.calls.register("alpha", a_graph())
        self.secrets |= {"submit": made.token, "agent": made.secret}
        self.access.PutUser(access_pb2.PutUserRequest(name="ana", create=True), metadata=self.calls.who)
        for kind, fields in {
            "user": {"owner": "ana", "scopes": ["submit:alpha", "job:read:own"]},
            "join": {"join": True},
            "revoked": {"owner": "ana", "scopes": ["job:read:own"]},
        }.items():
            answer = self.access.CreateToken(access_pb2.CreateTokenRequest(**fields), metadata=self.calls.who)
            self.secrets[kind] = answer.text
        self.access.RevokeToken(access_pb2.RevokeTokenRequest(id=answer.token.id), metadata=self.calls.who)
        rotated = self.access.RotateToken(access_pb2.RotateTokenRequest(), metadata=bearer(made.secret))
        self.secrets["rotated"] = rotated.text

    def misuse(self, secret: str) -> None:
        """Send it to the wrong calls, and store the answers."""
        scheduler = rainbow_pb2_grpc.RainbowSchedulerStub(self.channel)
        tries = [
            lambda: self.calls.jobs.List(jobs_pb2.ListJobsRequest(), metadata=bearer(secret), timeout=20),
            lambda: self.calls.jobs.Submit(jobs_pb2.SubmitRequest(), metadata=bearer(secret), timeout=20),
            lambda: self.access.ListUsers(access_pb2.ListUsersRequest(), metadata=bearer(secret), timeout=20),
            lambda: self.access.WhoAmI(access_pb2.WhoAmIRequest(), metadata=bearer(secret + "x"), timeout=20),
            lambda: self.access.RevokeToken(access_pb2.RevokeTokenRequest(id="x"), metadata=bearer(secret), timeout=20),
            lambda: scheduler.ReceiveJobs(rainbow_pb2.ReceiveJobsRequest(cluster="beta", secret=secret), timeout=20),
            lambda: scheduler.Delete(rainbow_pb2.DeleteRequest(name=secret, secret="x"), timeout=20),
            lambda: scheduler.Delete(rainbow_pb2.DeleteRequest(name=secret, secret=self.secrets["user"]), timeout=20),
            lambda: self.calls.clusters.UpdateState(
                clusters_pb2.UpdateStateRequest(cluster="beta", values="{"), metadata=bearer(secret), timeout=20
            ),
        ]
        for one in tries:
            with contextlib.suppress(grpc.RpcError):
                try:
                    one()
                except grpc.RpcError as error:
                    self.said.append(f"{error.details()} {error.trailing_metadata()}")
                    raise


def places(server: ServerProcess) -> dict[str, bytes]:
    """Return all files of the server, and its command line."""
    found = {
        str(path.relative_to(server.folder)): path.read_bytes()
        for path in server.folder.rglob("*")
        if path.is_file() and path.name != "admin.token"
    }
    assert server.process is not None
    found["command line"] = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    found["all command lines"] = subprocess.run(["ps", "axww"], capture_output=True, check=False).stdout
    return found


def audit_with(server: ServerProcess, outcomes: set[str]) -> list[dict[str, str]]:
    """The audit log once these outcomes are in it: refusals are written together, a moment after they were given."""
    until = time.monotonic() + 30
    while True:
        lines: list[dict[str, str]] = json.loads(server.run("audit", "-n", "1000", "-o", "json").stdout)["lines"]
        seen = {line["outcome"] for line in lines}
        if seen >= outcomes:
            return lines
        assert time.monotonic() < until, seen


def test_no_secret_is_left_in_database_wal_log_audit_or_process_list(tmp_path: Path) -> None:
    with a_server_process(tmp_path, arguments=("--log-level", "debug")) as server:
        with server.channel() as channel:
            canaries = Canaries(server, channel)
            canaries.plant()
            for secret in canaries.secrets.values():
                canaries.misuse(secret)
            log = audit_with(server, {"done", "denied", "unauthenticated"})
            found = places(server)
            assert any(name.endswith("-wal") for name in found), sorted(found)
        server.kill()  # what a crash leaves: the WAL, and whatever was half written
        found |= places_after(server) | {"audit": json.dumps(log).encode()}
    hits = [
        (kind, where)
        for kind, secret in canaries.secrets.items()
        for where, data in found.items()
        if secret.encode() in data or secret[-43:].encode() in data
    ]
    assert hits == []
    told = [
        (kind, said)
        for kind, secret in canaries.secrets.items()
        for said in canaries.said
        if secret in said and "does not allow agent on" not in said  # a caller's own words, told back to them
    ]
    assert told == []
    print(f"{len(canaries.secrets)} kinds of secret looked for in {len(found)} places and {len(canaries.said)} answers")


def places_after(server: ServerProcess) -> dict[str, bytes]:
    """The files once more, when the server is dead."""
    return {
        f"{path.relative_to(server.folder)} (dead)": path.read_bytes()
        for path in server.folder.rglob("*")
        if path.is_file() and path.name != "admin.token"
    }

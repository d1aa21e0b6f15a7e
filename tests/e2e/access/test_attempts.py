"""Attempts of an outsider, a user and an agent against a real server; each was tried before it was a test."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc
from rainbow_sched.pb.v2 import agents_pb2, jobs_pb2
from tests.support.calls import Calls
from tests.support.server_process import RAINBOW, ServerProcess, a_server_process
from tests.support.service import a_graph, a_request
from tests.unit.access.calls import ask, code_of, follow
from tests.unit.access.rows import JOBSPEC

pytestmark = pytest.mark.timeout(120)
WHO = "/rainbow.v2.Access/WhoAmI"
SPEC = jobs_pb2.Spec(canonical=to_json(a_request()))
NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with two clusters; ana may use alpha, bob beta."""
    with a_server_process(tmp_path_factory.mktemp("server"), arguments=("--log-level", "warning")) as running:
        with running.channel() as channel:
            calls = Calls(channel, running.admin_token)
            running.agents = {name: calls.register(name, a_graph()).secret for name in ("alpha", "beta")}  # type: ignore[attr-defined]
        running.run("group", "add", "lab")
        for name, cluster in (("ana", "alpha"), ("bob", "beta")):
            running.run("user", "add", name, "--allow", f"submit:{cluster}")
        yield running


def token(server: ServerProcess, user: str, *scopes: str, ttl: str = "1h") -> str:
    """A new token of a user."""
    asked = [word for scope in scopes for word in ("--scope", scope)]
    return server.run("token", "create", "--user", user, "--ttl", ttl, *asked).stdout.strip()


def memory(server: ServerProcess) -> int:
    """Resident bytes of the server."""
    assert server.process is not None
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def calling(server: ServerProcess, work: Callable[[aio.Channel], Any]) -> Any:
    """Run asynchronous calls over a channel of their own."""

    async def run() -> Any:
        async with aio.insecure_channel(server.address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
            return await work(channel)

    return asyncio.run(run())


# --- sizes ---


def test_a_stranger_cannot_make_the_server_hold_their_messages(server: ServerProcess) -> None:
    before, data = memory(server), b"\0" * (60 * 2**20)

    async def send(channel: aio.Channel) -> list[str]:
        paths = [WHO, "/rainbow.v2.Jobs/Submit", "/rainbow.v2.Jobs/SubmitBatch", "/rainbow.v2.Agents/Sync"]
        calls = [channel.unary_unary(path)(data, timeout=30) for path in paths * 3]
        zipped = channel.unary_unary(WHO)(data, timeout=30, compression=grpc.Compression.Gzip)
        return list(await asyncio.gather(*(code_of(call) for call in (*calls, zipped))))

    assert set(calling(server, send)) == {"UNAUTHENTICATED"}
    assert memory(server) - before < 64 * 2**20


def test_uploads_without_a_credential_end_before_their_first_message(server: ServerProcess) -> None:
    async def never() -> Any:
        await asyncio.sleep(60)
        yield b""

    async def send(channel: aio.Channel) -> list[str]:
        paths = ["/rainbow.v2.Clusters/Register", "/rainbow.v2.Clusters/PutSubsystem"]
        calls = [channel.stream_unary(path)(never(), timeout=20) for path in paths * 200]
        async with asyncio.timeout(15):
            return list(await asyncio.gather(*(code_of(call) for call in calls)))

    assert set(calling(server, send)) <= {"UNAUTHENTICATED", "RESOURCE_EXHAUSTED"}


MUCH: dict[str, tuple[str, dict[str, Any]]] = {
    "a million ids to cancel": ("Jobs/Cancel", {"ids": range(1, 1_000_000)}),
    "a million ids to list": ("Jobs/List", {"filter": jobs_pb2.JobFilter(ids=range(1, 1_000_000))}),
    "two million clusters without a name": (
        "Jobs/Submit",
        {"spec": SPEC, "terms": jobs_pb2.Terms(only_clusters=[""] * 1_900_000)},
    ),
    "as many to avoid": ("Jobs/Plan", {"spec": SPEC, "terms": jobs_pb2.Terms(not_clusters=[""] * 1_900_000)}),
    "the same job to wait for, again and again": (
        "Jobs/Submit",
        {"spec": SPEC, "terms": jobs_pb2.Terms(dependencies=["after:1"] * 300_000)},
    ),
    "ten thousand labels to filter by": (
        "Jobs/List",
        {"filter": jobs_pb2.JobFilter(labels={str(n): "x" for n in range(10_000)})},
    ),
}


@pytest.mark.parametrize("what", MUCH)
def test_a_list_that_is_too_long_is_refused_at_once(server: ServerProcess, what: str) -> None:
    path, fields = MUCH[what]
    ana = token(server, "ana", "submit:alpha", "job:read:own", "job:cancel:own")
    began = time.monotonic()
    assert calling(server, lambda channel: code_of(ask(channel, path, ana, **fields))) == "INVALID_ARGUMENT"
    assert time.monotonic() - began < 5


def test_one_users_large_jobs_do_not_hide_everybody_elses(server: ServerProcess) -> None:
    ana = token(server, "ana", "submit:alpha", "job:read:own", "job:cancel:own")
    labels = {"x": "y" * 60_000}

    async def fill(channel: aio.Channel) -> list[int]:
        job = jobs_pb2.SubmitRequest(spec=SPEC, terms=jobs_pb2.Terms(labels=labels, hold=True))
        made = await ask(channel, "Jobs/SubmitBatch", ana, jobs=[job] * 60)
        await ask(channel, "Jobs/SubmitBatch", ana, jobs=[job] * 60)
        first = await ask(channel, "Jobs/List", server.admin_token, limit=120)  # a client that takes 4 MiB
        assert 0 < len(first.jobs) < 120
        assert first.next == first.jobs[-1].id
        return [one.id for one in made.jobs]

    ids = calling(server, fill)
    listed = json.loads(server.run("jobs", "--all", "-c", "120", "-o", "json").stdout)["jobs"]
    assert len(listed) >= 120
    server.run("cancel", f"{ids[0]}-{ids[-1]}", token=ana, check=False)


# --- numbers that no clock shows ---


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e300, -1.0])
@pytest.mark.parametrize("name", ["start_after", "deadline"])
def test_a_time_that_no_clock_shows_is_refused(server: ServerProcess, name: str, value: float) -> None:
    ana = token(server, "ana", "submit:alpha")
    terms = jobs_pb2.Terms(**{name: value})
    for path in ("Jobs/Submit", "Jobs/Plan"):
        call = calling(server, lambda channel, path=path: code_of(ask(channel, path, ana, spec=SPEC, terms=terms)))
        assert call == "INVALID_ARGUMENT"


@pytest.mark.parametrize("lease", [NAN, INF, -1.0, 1e300])
def test_a_lease_that_never_ends_is_refused(server: ServerProcess, lease: float) -> None:
    secret = server.agents["beta"]  # type: ignore[attr-defined]
    call = calling(server, lambda channel: code_of(ask(channel, "Agents/Receive", secret, cluster="beta", lease=lease)))
    assert call == "INVALID_ARGUMENT"


def test_reports_of_a_hostile_agent_do_not_break_terminals(server: ServerProcess) -> None:
    secret = server.agents["beta"]  # type: ignore[attr-defined]
    bob = token(server, "bob", "submit:beta", "job:read:own")
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31mred\u202e"
    said = {"cluster": "beta", "epoch": "journal.e"}

    async def lie(channel: aio.Channel) -> int:
        job = await ask(channel, "Jobs/Submit", bob, spec=SPEC, terms=jobs_pb2.Terms(only_clusters=["beta"]))
        await ask(channel, "Agents/Sync", secret, **said, seq=1)
        offers = (await ask(channel, "Agents/Sync", secret, **said, seq=2, want=50)).offers
        ref = next(o.attempt for o in offers if o.attempt.job == job.id)
        taken = agents_pb2.AttemptRef.FromString(ref.SerializeToString())
        await ask(channel, "Agents/Sync", secret, **said, seq=3, accepts=[taken])
        # The second one is kept as it came, because no exit code is that large; it ends nothing.
        for seq, state, at, code in (
            (4, "running", NAN, {}),
            (5, evil, NAN, {"exit_code": 2**31 - 1}),
            (6, "failed", -1e300, {"exit_code": 255}),
        ):
            report = agents_pb2.Report(
                attempt=taken, state=state, started_at=at, ended_at=at, reason=evil, native_id=evil, **code
            )
            output = [agents_pb2.Output(attempt=taken, stream="stdout", data=evil.encode())] if seq == 4 else []
            await ask(channel, "Agents/Sync", secret, **said, seq=seq, reports=[report], output=output)
        return int(job.id)

    id = str(calling(server, lie))
    assert json.loads(server.run("jobs", id, "-o", "json", token=bob).stdout)["jobs"][0]["state"] == "failed"
    assert "is unknown to this server" in server.run("explain", id, "-v", token=bob).stdout
    server.run("drain", "beta", "-m", evil)
    for words in (
        ["jobs", id],
        ["explain", id],
        ["explain", id, "-v"],
        ["logs", id],
        ["clusters", "beta"],
        ["clusters", "-o", "wide"],
    ):
        shown = on_a_terminal(server, bob, *words)
        assert not re.search(rb"[\x1b\x07\x9b]|\xc2\x9b|\xe2\x80\xae", shown), (words, shown)
    server.run("undrain", "beta")


def on_a_terminal(server: ServerProcess, token: str, *words: str) -> bytes:
    """What `rainbow` prints when its output is a terminal."""
    outer, inner = pty.openpty()
    environment = server.environment() | {"RAINBOW_SERVER": server.address, "RAINBOW_TOKEN": token, "TERM": "xterm"}
    process = subprocess.Popen([*RAINBOW, *words], env=environment, stdout=inner, stderr=inner, stdin=inner)
    os.close(inner)
    shown = b""
    try:
        while data := os.read(outer, 65_536):
            shown += data
    except OSError:  # the other end is closed
        pass
    os.close(outer)
    process.wait(30)
    return shown


# --- names ---


@pytest.mark.parametrize(
    "name", ["\u0430na", "ana\u200b", "ana\n", " ana", "ana\u202e", "cluster:alpha", "server", "a" * 64]
)
def test_a_name_that_looks_like_another_is_no_name(server: ServerProcess, name: str) -> None:
    call = calling(
        server, lambda channel: code_of(ask(channel, "Access/PutUser", server.admin_token, name=name, create=True))
    )
    assert call == "INVALID_ARGUMENT"


def test_the_prototypes_question_tells_a_user_of_their_own_clusters_only(server: ServerProcess) -> None:
    ana = token(server, "ana", "submit:alpha")

    def satisfied(credential: str) -> tuple[list[str], int]:
        with server.channel() as channel:
            stub = memory_pb2_grpc.MemoryGraphStub(channel)
            who = [("authorization", f"Bearer {credential}")] if credential else []
            answer = stub.Satisfy(memory_pb2.SatisfyRequest(payload=JOBSPEC), metadata=who, timeout=20)
            return sorted(answer.clusters), answer.total_clusters

    assert satisfied(ana) == (["alpha"], 1)
    assert satisfied("") == (["alpha", "beta"], 2), "on this machine, as the prototype answers"
    server.run("rules", "beta", "--allow-users", "bob")
    assert satisfied("") == (["alpha"], 1)
    assert satisfied(token(server, "bob", "submit:beta")) == (["beta"], 1)
    server.run("rules", "beta", "--clear")


# --- what is open while rights change ---


def cut_after(server: ServerProcess, credential: str, change: Callable[[], object], **fields: Any) -> float:
    """Seconds after which an open stream of events ends, counted from the end of the change."""

    async def watch(channel: aio.Channel) -> float:
        stream = follow(channel, "Jobs/Watch", credential, **fields)
        reading = asyncio.ensure_future(drained(stream))
        await asyncio.sleep(0.3)
        assert not reading.done()
        await asyncio.to_thread(change)
        began = time.monotonic()
        assert await code_of(reading) == "UNAUTHENTICATED"
        return time.monotonic() - began

    return float(calling(server, watch))


async def drained(stream: Any) -> None:
    async for _ in stream:
        pass


def test_open_streams_end_when_groups_rights_or_accounts_change_and_when_time_is_up(server: ServerProcess) -> None:
    server.run("user", "add", "gina", "--group", "lab", "--allow", "job:read:group")
    server.run("user", "add", "gus", "--group", "lab")
    reads = token(server, "gina", "job:read:group", "job:read:own")
    admin, none = server.admin_token, {"names": []}

    def put(name: str, **fields: Any) -> None:
        calling(server, lambda channel: ask(channel, "Access/PutUser", admin, name=name, **fields))

    changes: dict[str, Callable[[], object]] = {
        "a fellow leaves the group": lambda: put("gus", groups=none),
        "the right is taken": lambda: put("gina", rights=none),
        "the account is disabled": lambda: server.run("user", "disable", "gina"),
    }
    for what, change in changes.items():
        assert cut_after(server, reads, change) < 1.5, what
    server.run("user", "enable", "gina")
    short = token(server, "gina", "job:read:own", ttl="3s")
    assert cut_after(server, short, lambda: None) < 5


def test_an_upload_ends_when_its_credential_is_revoked(server: ServerProcess) -> None:
    server.run("user", "add", "rose", "--allow", "register:new*")
    credential = token(server, "rose", "register:new*")
    id = credential.split("_")[2]

    async def slowly(channel: aio.Channel) -> str:
        from tests.support.calls import upload

        revoked = asyncio.Event()

        async def pieces() -> Any:
            for message in upload("newcomer", a_graph()):
                yield message.SerializeToString()
                await revoked.wait()
                await asyncio.sleep(3)

        call = channel.stream_unary("/rainbow.v2.Clusters/Register")(
            pieces(), metadata=[("authorization", f"Bearer {credential}")], timeout=20
        )
        waiting = asyncio.ensure_future(code_of(call))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.run, "token", "revoke", id)
        revoked.set()
        return await waiting

    assert calling(server, slowly) == "UNAUTHENTICATED"
    assert "newcomer" not in server.run("clusters").stdout

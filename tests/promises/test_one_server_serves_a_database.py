"""One server serves a database: a second one is refused, one that is gone is replaced, one that wakes up too late ends.

All of them are real processes; what they stored is read from the database itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.calls import Calls
from tests.support.postgres import Postgres
from tests.support.server_process import ServerProcess, a_server_process
from tests.support.service import a_graph, a_request

pytestmark = pytest.mark.timeout(180)
PROMISED = 10.0  # seconds until a server that was killed or frozen is replaced
BATCH = 5_000


@contextlib.contextmanager
def channel_to(server: ServerProcess) -> Iterator[grpc.Channel]:
    with server.channel() as channel:
        grpc.channel_ready_future(channel).result(timeout=30)
        yield channel


@pytest.fixture
def first(postgres: Postgres, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on PostgreSQL; it may be frozen when a test ends."""
    with a_server_process(tmp_path / "first", db=postgres.new_database()) as server:
        try:
            yield server
        finally:
            if server.process is not None and server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def a_second(first: ServerProcess) -> Iterator[ServerProcess]:
    """Another server on the same database, with a folder and an address of its own; it is not started yet."""
    second = ServerProcess(first.folder.parent / "second", db=first.db)
    try:
        yield second
    finally:
        if second.process is not None:
            second.stop()


def rows(server: ServerProcess, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.db) as connection:
        return connection.execute(query).fetchall()


def claim(server: ServerProcess) -> tuple[int, int]:
    """Return the term and the process of the claim."""
    [(term, process)] = rows(server, "SELECT term, process FROM claims")
    return term, process


def pid(server: ServerProcess) -> int:
    assert server.process is not None
    return server.process.pid


def ends_as_replaced(server: ServerProcess, by: ServerProcess) -> None:
    """Check that the server exits and names the server that replaced it."""
    assert server.process is not None
    assert server.process.wait(30) == 6, server.log[-2000:]
    told = f"this server was replaced: the server on {socket.gethostname()} (process {pid(by)}, since 20"
    assert told in server.log
    assert "Traceback" not in server.log


def replaced_message(error: grpc.RpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and "this server was replaced: the server on" in (
        error.details() or ""
    )


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_second_server_is_refused_with_the_name_of_the_first(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if database == "sqlite":
        url = f"sqlite:///{tmp_path / 'first' / 'data' / 'rainbow.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database()
    with a_server_process(tmp_path / "first", db=url) as first, a_second(first) as second:
        with pytest.raises(AssertionError, match="the server ended with 6"):
            second.start()
        who = (socket.gethostname(), f"process {pid(first)}", "since 20")
        waiting, refusal = second.log.strip().splitlines()
        assert all(word in waiting for word in (*who, "waiting up to 10 s for it to stop"))
        assert all(word in refusal for word in (*who, "only one server may", "stop that server first", "--db"))
        assert not (second.folder / "data/admin.token").exists()
        with channel_to(first) as channel:
            assert Calls(channel, first.admin_token).submit().id == 1  # the first is not disturbed


def test_after_a_clean_stop_a_new_server_serves_at_once(first: ServerProcess) -> None:
    assert claim(first) == (1, pid(first))
    assert first.stop() == 0
    assert rows(first, "SELECT term, expires_at FROM claims") == [(1, 0)]
    with a_second(first) as second:
        second.start()
        assert "waiting" not in second.log
        assert claim(second) == (2, pid(second))
        with channel_to(second) as channel:
            assert Calls(channel, first.admin_token).submit().id == 1


def test_after_a_kill_a_new_server_serves_within_ten_seconds(first: ServerProcess) -> None:
    with channel_to(first) as channel:
        calls = Calls(channel, first.admin_token)
        calls.register("east", a_graph(nodes=4))
        acknowledged = {calls.submit(token=f"{n}").id for n in range(20)}
    # As if it had run on another machine: of that no one can see that its process is gone.
    with psycopg.connect(first.db) as connection:
        first.kill()
        connection.execute("UPDATE claims SET boot = 'of another machine', host = 'elsewhere'")
    killed = time.monotonic()
    with a_second(first) as second:
        second.start()
        with channel_to(second) as channel:
            calls = Calls(channel, first.admin_token)
            calls.submit()
            assert time.monotonic() - killed < PROMISED
            assert acknowledged < {job.id for job in calls.listed()}
        assert "the server on elsewhere" in second.log
        assert "did not release its claim and is gone; this server takes over" in second.log


def test_a_killed_server_is_started_again_at_once_on_its_machine(first: ServerProcess) -> None:
    for term in (2, 3):
        first.kill()
        first.start()
        assert claim(first) == (term, pid(first))
    assert "waiting" not in first.log


def test_a_frozen_server_that_was_replaced_writes_nothing_when_it_wakes_up(first: ServerProcess) -> None:
    """Four nodes, four jobs at the first server and four at the second: eight jobs must never be on the nodes."""
    assert first.process is not None
    with contextlib.ExitStack() as stack:
        second = stack.enter_context(a_second(first))
        calls = Calls(stack.enter_context(channel_to(first)), first.admin_token)
        calls.register("east", a_graph(nodes=4, cores=1))
        for n in range(4):
            calls.submit(name=f"first {n}")
        watching = calls.jobs.Watch(jobs_pb2.WatchRequest(), metadata=calls.who, timeout=120)
        next(iter(watching))
        assert [job.state for job in calls.listed()] == ["bound"] * 4
        first.process.send_signal(signal.SIGSTOP)
        frozen = time.monotonic()
        threads = stack.enter_context(ThreadPoolExecutor(12))
        stack.callback(first.process.send_signal, signal.SIGCONT)
        late = [threads.submit(calls.submit, name="late", token=f"late {n}", timeout=120) for n in range(4)]
        reads: list[Future[Any]] = [threads.submit(_list, calls) for _ in range(4)]

        second.start()
        at_second = Calls(stack.enter_context(channel_to(second)), first.admin_token)
        at_second.submit(name="second 0")
        assert time.monotonic() - frozen < PROMISED
        assert claim(second) == (2, pid(second))
        for n in range(1, 4):
            at_second.submit(name=f"second {n}")
        assert _bound(first) == 4
        events, audited = rows(first, "SELECT max(seq) FROM events"), rows(first, "SELECT max(seq) FROM audit")

        first.process.send_signal(signal.SIGCONT)
        for call in late + reads:
            with pytest.raises(grpc.RpcError) as refused:
                call.result(timeout=60)
            assert replaced_message(refused.value), refused.value
        with pytest.raises(grpc.RpcError) as ended:
            list(watching)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        ends_as_replaced(first, second)

        names = sorted(name for (name,) in rows(first, "SELECT name FROM jobs"))
        assert names == sorted(f"{server} {n}" for server in ("first", "second") for n in range(4))
        assert _bound(first) == 4
        assert rows(first, "SELECT max(seq) FROM events") == events
        assert rows(first, "SELECT max(seq) FROM audit") == audited
        assert claim(second) == (2, pid(second))
        at_second.submit(name="after")


def _list(calls: Calls) -> object:
    return calls.jobs.List(jobs_pb2.ListJobsRequest(limit=10), metadata=calls.who, timeout=120)


def _bound(server: ServerProcess) -> int:
    [(count,)] = rows(server, "SELECT count(*) FROM jobs WHERE cluster <> ''")
    return int(count)


def test_a_server_frozen_during_a_write_blocks_no_takeover(first: ServerProcess) -> None:
    """Its transaction holds locks that no timeout of PostgreSQL frees; the takeover ends its sessions."""
    assert first.process is not None
    acknowledged: list[int] = []
    with contextlib.ExitStack() as stack:
        second = stack.enter_context(a_second(first))
        calls = Calls(stack.enter_context(channel_to(first)), first.admin_token)
        threads = stack.enter_context(ThreadPoolExecutor(1))
        submitting = threads.submit(_submit_batches, calls, acknowledged)
        stack.callback(first.process.send_signal, signal.SIGCONT)
        _freeze_in_a_write(first)
        frozen = time.monotonic()
        second.start()
        at_second = Calls(stack.enter_context(channel_to(second)), first.admin_token)
        after = at_second.submit(name="second").id
        assert time.monotonic() - frozen < PROMISED
        first.process.send_signal(signal.SIGCONT)
        assert replaced_message(submitting.result(timeout=60))
        ends_as_replaced(first, second)
        assert after == len(acknowledged) + 1
        stored = [id for (id,) in rows(first, "SELECT id FROM jobs ORDER BY id")]
        assert stored == [*sorted(acknowledged), after]


def _submit_batches(calls: Calls, acknowledged: list[int]) -> grpc.RpcError:
    """Submit batches one after another until one is refused."""
    spec = jobs_pb2.Spec(canonical=to_json(a_request()))
    batch = jobs_pb2.SubmitBatchRequest(jobs=[jobs_pb2.SubmitRequest(name="batch", spec=spec)] * BATCH)
    while True:
        try:
            answer = calls.jobs.SubmitBatch(batch, metadata=calls.who, timeout=120)
        except grpc.RpcError as error:
            return error
        acknowledged += [job.id for job in answer.jobs]


def _freeze_in_a_write(server: ServerProcess) -> None:
    """Stop the server while one of its transactions has stored something and is not committed."""
    assert server.process is not None
    until = time.monotonic() + 60
    with psycopg.connect(server.db, autocommit=True) as connection:

        def writing() -> bool:
            return connection.execute(_WRITING).fetchone() is not None

        while True:
            assert time.monotonic() < until
            if writing():
                server.process.send_signal(signal.SIGSTOP)
                settled = time.monotonic() + 0.5  # what it had sent before is done by then
                while writing() and time.monotonic() < settled:
                    time.sleep(0.02)
                if writing():
                    return
                server.process.send_signal(signal.SIGCONT)


_WRITING = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'rainbow%' "
    "AND backend_xid IS NOT NULL"
)


def test_a_server_that_stood_still_and_was_not_replaced_goes_on(first: ServerProcess) -> None:
    assert first.process is not None
    with channel_to(first) as channel, ThreadPoolExecutor(1) as threads:
        calls = Calls(channel, first.admin_token)
        calls.register("east", a_graph(nodes=4))
        first.process.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            first.process.wait(7.0)  # longer than a lease
        assert rows(first, f"SELECT expires_at < {time.time()} FROM claims") == [(True,)]
        asked = threads.submit(calls.listed)
        first.process.send_signal(signal.SIGCONT)
        assert asked.result(60) == []
        assert first.run("submit", "--", "true").stdout == "1\n"
    assert claim(first) == (1, pid(first))
    assert first.stop() == 0


def test_a_tool_is_not_refused_on_postgresql_while_the_server_runs(first: ServerProcess) -> None:
    first.run("server", "admin-token", "--db", first.db, "--data-dir", str(first.folder / "data"))
    assert os.path.getsize(first.folder / "data/admin.token") > 0
    with channel_to(first) as channel:
        assert Calls(channel, first.admin_token).submit().id == 1

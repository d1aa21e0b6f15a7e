"""The server as a process: it starts, refuses what is unsafe, survives kills, keeps secrets, and stops."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import time
from pathlib import Path
from random import Random

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.calls import Calls
from tests.support.prefork import a_forked_server
from tests.support.server_process import RAINBOW, SECRET, ServerProcess, a_server_process, free_port
from tests.support.service import a_graph

pytestmark = pytest.mark.timeout(180)


def test_it_exits_with_0_on_sigterm_despite_open_watches(server: ServerProcess) -> None:
    with server.channel() as channel:
        calls = Calls(channel, server.admin_token)
        stream = calls.jobs.Watch(jobs_pb2.WatchRequest(), metadata=calls.who)
        calls.register("east", a_graph())
        calls.submit()
        next(iter(stream))
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 15


def test_health_answers_without_a_credential(server: ServerProcess) -> None:
    with server.channel() as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_bind_beyond_this_machine_without_tls_is_refused(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [*RAINBOW, "server", "--listen", f"0.0.0.0:{free_port()}", "--data-dir", str(tmp_path / "data")],
        env=server.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "TLS" in done.stderr
    assert "--insecure" in done.stderr


def test_a_port_in_use_is_reported_in_one_line(server: ServerProcess, tmp_path: Path) -> None:
    done = subprocess.run(
        [*RAINBOW, "server", "--listen", server.address, "--data-dir", str(tmp_path / "other")],
        env=server.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "the port is in use; is another server running?" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_of_another_machine_is_not_taken_for_a_port_in_use(tmp_path: Path) -> None:
    listen = ("--listen", "203.0.113.5:50051", "--insecure")  # of the range that is for documentation only
    done = subprocess.run(
        [*RAINBOW, "server", *listen, "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 6
    assert "cannot listen on 203.0.113.5:50051: Cannot assign requested address" in done.stderr


def test_two_servers_with_their_own_folders_share_nothing(tmp_path: Path) -> None:
    with a_server_process(tmp_path / "one") as one, a_server_process(tmp_path / "two") as two:
        with one.channel() as channel:
            Calls(channel, one.admin_token).register("east", a_graph())
        assert "east" in one.run("clusters").stdout
        assert "east" not in two.run("clusters").stdout


def test_everything_is_there_after_a_kill_between_any_two_calls(server_on_each: ServerProcess) -> None:
    server = server_on_each

    def again() -> Calls:
        server.kill()
        server.start()
        return Calls(server.channel(), server.admin_token)

    calls = Calls(server.channel(), server.admin_token)
    made = calls.register("east", a_graph(nodes=2))
    calls = again()
    assert calls.register("east", a_graph()).exists
    agent = Calls(calls.channel, made.secret)
    agent.state("east", nodes_free=2)
    calls = again()
    first = calls.submit(token="a")
    calls = again()
    assert calls.submit(token="a").id == first.id
    [job] = calls.listed()
    assert (job.id, job.state, job.cluster) == (first.id, "bound", "east")
    shown = json.loads(server.run("clusters", "-o", "json").stdout)["clusters"][0]
    assert shown["state"]["nodes_free"] == 2


def test_no_acknowledged_job_is_lost_when_the_server_is_killed_a_hundred_times_under_load(tmp_path: Path) -> None:
    """The counts are printed. RAINBOW_KILL_CYCLES asks for more."""
    with a_forked_server(tmp_path) as server:
        _killed_under_load(server, int(os.environ.get("RAINBOW_KILL_CYCLES", "120")))


def _killed_under_load(server: ServerProcess, cycles: int) -> None:
    with server.channel() as channel:
        Calls(channel, server.admin_token).register("east", a_graph(nodes=1000, cores=64))
    acked: dict[str, int] = {}

    def load(worker: int, cycle: int) -> None:
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            for i in range(10_000):
                token = f"{cycle}-{worker}-{i}"
                try:
                    acked[token] = calls.submit(token=token, timeout=5).id
                except grpc.RpcError:
                    return

    rng, begun = Random(1), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for cycle in range(cycles):
            enough = len(acked) + rng.randrange(1, 40)
            workers = [pool.submit(load, worker, cycle) for worker in range(4)]
            until = time.monotonic() + 30
            while len(acked) < enough and time.monotonic() < until:
                concurrent.futures.wait(workers, timeout=0.02, return_when=concurrent.futures.FIRST_COMPLETED)
            server.kill()
            for worker in workers:
                worker.result()
            server.start()
    with server.channel() as channel:
        stored = {job.id: job for job in Calls(channel, server.admin_token).listed()}
    lost = [token for token, id in acked.items() if id not in stored]
    assert lost == []
    assert len(set(acked.values())) == len(acked)
    seconds = time.monotonic() - begun
    print(f"{cycles} kills in {seconds:.0f} s, {len(acked)} acknowledged, {len(lost)} lost, {len(stored)} stored")


def test_fifty_clients_mixing_every_call_get_answers(server: ServerProcess) -> None:
    with server.channel() as channel:
        admin = Calls(channel, server.admin_token)
        admin.register("east", a_graph(nodes=8, cores=64))

        def client(number: int) -> list[str]:
            codes = []
            name = f"c{number}"
            with server.channel() as mine:
                calls = Calls(mine, server.admin_token)
                steps = [
                    lambda: calls.register(name, a_graph(nodes=1 + number % 4)),
                    lambda: calls.state(name, nodes_free=number),
                    lambda: calls.submit(nodes=1, cores=1 + number % 8),
                    lambda: calls.submit(nodes=3),
                    lambda: calls.jobs.List(jobs_pb2.ListJobsRequest(limit=5), metadata=calls.who, timeout=30),
                    lambda: calls.jobs.Plan(
                        jobs_pb2.PlanRequest(spec=jobs_pb2.Spec(text="{")), metadata=calls.who, timeout=30
                    ),
                    lambda: memory_pb2_grpc.MemoryGraphStub(mine).Satisfy(
                        memory_pb2.SatisfyRequest(payload="not a jobspec"), timeout=30
                    ),
                ]
                for step in steps:
                    try:
                        step()
                        codes.append("OK")
                    except grpc.RpcError as error:
                        codes.append(error.code().name)
            return codes

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(client, range(50)))
        assert set(map(tuple, answers)) == {("OK", "OK", "OK", "OK", "OK", "INVALID_ARGUMENT", "INVALID_ARGUMENT")}
        jobs = admin.listed()
        assert len(jobs) == 100
        assert len({job.id for job in jobs}) == 100


def test_no_secret_is_in_the_database_the_log_or_a_process_list(server: ServerProcess) -> None:
    with server.channel() as channel:
        made = Calls(channel, server.admin_token).register("east", a_graph())
    secrets = [made.token, made.secret, server.admin_token, SECRET]
    kept = server.log.encode()
    for path in (server.folder / "data").iterdir():
        if path.name != "admin.token":
            kept += path.read_bytes()
    listing = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, check=True).stdout
    for secret in secrets:
        assert secret.encode() not in kept
        assert secret.encode() not in listing
    for path in (server.folder / "data").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path

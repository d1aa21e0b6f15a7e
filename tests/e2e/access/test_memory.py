"""Thousands of invalid calls do not increase the memory, threads and open files of a server."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path
from random import Random

import pytest
from grpc import aio

from tests.contract.access.test_fuzz import noise, one
from tests.support.calls import Calls
from tests.support.server_process import ServerProcess, a_server_process
from tests.support.service import a_graph
from tests.unit.access.rows import ROWS
from tests.unit.access.world import DELETED, MISSING, OTHER, OWN, World

pytestmark = pytest.mark.timeout(240)
EACH = 10  # calls of each RPC by each caller in one round
WARMING, ROUNDS = 3, 6
MOST_GROWTH = 6 * 1024 * 1024  # bytes, over all rounds after the warming
CALLERS = ("anonymous", "guesser", "ana")
STORES = ("Register", "SubmitJob", "Submit", "SubmitBatch", "CreateToken", "RotateToken")  # more stored is more kept


def held(server: ServerProcess) -> tuple[int, int, int]:
    """Resident bytes, threads and open files of the server."""
    assert server.process is not None
    place = Path(f"/proc/{server.process.pid}")
    pages = int((place / "statm").read_text().split()[1])
    return pages * resource.getpagesize(), len(os.listdir(place / "task")), len(os.listdir(place / "fd"))


async def rounds(server: ServerProcess, world: World) -> list[tuple[int, int, int]]:
    """Return the resources of the server after each round of invalid calls."""
    seen, rng = [], Random(11)
    paths = [path for path in ROWS if path.rpartition("/")[2] not in STORES]
    async with aio.insecure_channel(server.address) as channel:
        world.channel = channel
        for _ in range(WARMING + ROUNDS):
            for path in paths:
                for who in CALLERS:
                    sent = [noise(rng, path, world, who) for _ in range(EACH)]
                    await asyncio.gather(*(one(world, path, who, data) for data in sent))
            seen.append(held(server))
    return seen


def test_memory_threads_and_files_stay_flat_under_noise(tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("limits: {refused_rate: 1.0e+6, refused_burst: 1.0e+6, rate: 1.0e+6, burst: 1.0e+6}\n")
    with a_server_process(tmp_path, arguments=("--config", str(limits), "--log-level", "error")) as server:
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            agents = {f"agent-{name}": calls.register(name, a_graph()).secret for name in ("alpha", "beta")}
        server.run("user", "add", "ana", "--allow", "submit:alpha")
        ana = server.run("token", "create", "--user", "ana", "--scope", "submit:alpha").stdout.strip()
        guess = f"rbw_usr_abcdefabcdef_{'x' * 43}"
        credentials = {"anonymous": "", "ana": ana, "guesser": guess, "admin": server.admin_token, **agents}
        jobs = {OWN: 1, OTHER: 2, MISSING: 999_999, DELETED: 3}
        tokens = dict.fromkeys(jobs, "abcdefabcdef")
        world = World(running=None, channel=None, credentials=credentials, jobs=jobs, tokens=tokens)
        seen = asyncio.run(rounds(server, world))
        made = (len(ROWS) - len(STORES)) * len(CALLERS) * EACH * (WARMING + ROUNDS)
        before, after = seen[WARMING - 1], seen[-1]
        print(f"{made} calls; bytes {[bytes // 2**20 for bytes, _, _ in seen]} MiB, threads and files {after[1:]}")
        assert after[0] - before[0] < MOST_GROWTH
        assert after[1] <= before[1] + 2
        assert after[2] <= before[2] + 5

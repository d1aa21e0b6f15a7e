"""Every RPC on the port, from every kind of caller, about every kind of object: no cell is left out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc import aio

from rainbow_sched.server import main
from rainbow_sched.server.admission.pipeline import AdmissionPipeline
from rainbow_sched.server.admission.policy import POLICY
from rainbow_sched.server.main import RunningServer
from rainbow_sched.server.options import ServerOptions
from tests.unit.access.rows import OK, ROWS, Row
from tests.unit.access.world import ALIVE, CASES, DEAD, EVERYBODY, World, a_world

PATIENCE = 0.3  # seconds after which a stream with nothing to show counts as silent
NOT_SERVED = {"/grpc.health.v1.Health/List", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"}


def method_of(path: str) -> Any:
    """The descriptor of a method."""
    service, _, name = path.strip("/").partition("/")
    return descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


async def test_every_rpc_on_the_port_has_a_row_here_and_in_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_port: list[Any] = []
    served: list[str] = []
    make, take_in = main.aio.server, AdmissionPipeline.add_generic_rpc_handlers

    def recording(*args: Any, **kwargs: Any) -> aio.Server:
        made = make(*args, **kwargs)
        add, add_methods = made.add_generic_rpc_handlers, made.add_registered_method_handlers

        def noting(handlers: Any) -> None:
            on_the_port.extend(handlers)
            add(handlers)

        def noting_methods(service: str, methods: Any) -> None:
            on_the_port.extend(methods)
            add_methods(service, methods)

        made.add_generic_rpc_handlers, made.add_registered_method_handlers = noting, noting_methods
        return made

    def behind(pipeline: AdmissionPipeline, handlers: Any) -> None:
        served.extend(handler.service_name() for handler in handlers)
        take_in(pipeline, handlers)

    monkeypatch.setattr(main.aio, "server", recording)
    monkeypatch.setattr(AdmissionPipeline, "add_generic_rpc_handlers", behind)
    running = await RunningServer.start(
        ServerOptions(listen="127.0.0.1:0", data_dir=tmp_path, registration_secret="x" * 20)
    )
    await running.stop()
    assert on_the_port == [running.admission], "something is served that does not pass the pipeline"
    pool = descriptor_pool.Default()
    paths = {f"/{name}/{method.name}" for name in served for method in pool.FindServiceByName(name).methods}
    assert paths == set(ROWS)
    assert paths == set(POLICY) - NOT_SERVED


def expected(row: Row, who: str, case: str) -> str:
    """What one cell must answer."""
    if who == "anonymous":
        return row.anonymous
    return row.dead if who in DEAD else row.expect(who, case)


@pytest.mark.parametrize("path", ROWS)
async def test_each_caller_gets_exactly_what_is_theirs(path: str, tmp_path: Path) -> None:
    row = ROWS[path]
    cells = [(who, case) for who in EVERYBODY for case in CASES]
    refused = [cell for cell in cells if expected(row, *cell) != OK]
    async with a_world(tmp_path / "world") as world:
        before = await world.snapshot()
        await asyncio.gather(*(one_cell(world, path, row, who, case) for who, case in refused))
        assert await world.snapshot() == before, "a refused call changed something"
        if not row.changes:
            for who, case in cells:
                if (who, case) not in refused:
                    await one_cell(world, path, row, who, case)
    for number, (who, case) in enumerate(cell for cell in cells if cell not in refused and row.changes):
        async with a_world(tmp_path / f"world {number}") as world:
            await one_cell(world, path, row, who, case)


async def one_cell(world: World, path: str, row: Row, who: str, case: str) -> None:
    """One call, and its answer."""
    code, answer = await call(world, path, row, who, case)
    assert code == expected(row, who, case), f"{path} by {who} about {case}: {code}"
    if code == OK and row.check is not None and who in ALIVE:
        row.check(world, case, who, answer)


async def call(world: World, path: str, row: Row, who: str, case: str) -> tuple[str, Any]:
    """The status of one call, and the first thing it answered."""
    method = method_of(path)
    read = message_factory.GetMessageClass(method.output_type).FromString
    write = message_factory.GetMessageClass(method.input_type).SerializeToString
    sent = row.send(world, case, who)
    incoming = method.client_streaming
    kind = f"{'stream' if incoming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    stub = getattr(world.channel, kind)(path, request_serializer=write, response_deserializer=read)
    metadata = [] if row.in_message else world.metadata(who)
    silent = method.server_streaming and path.endswith("Jobs/Watch")
    try:
        made = stub(iter(sent) if incoming else sent, metadata=metadata, timeout=PATIENCE if silent else 20)
        if not method.server_streaming:
            return OK, await made
        async for answer in made:
            made.cancel()
            return OK, answer
        return OK, None
    except aio.AioRpcError as error:
        return error.code().name, None

"""Noise: raw bytes to every RPC, broken documents to every reader. Nothing crashes, hangs or blames itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf import message_factory
from grpc import aio

from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import RainbowError
from rainbow_sched.selection.expressions import ExpressionError, compile_expression
from tests.contract.access.test_matrix import method_of
from tests.support.service import a_graph
from tests.unit.access.rows import JOBSPEC, OK, ROWS
from tests.unit.access.world import CASES, World, a_world

CALLS = 60  # of each RPC, by each caller
DOCUMENTS = 400  # of each kind
LONGEST = 1.0  # seconds that one call or document may hold anybody
BAD = {"INTERNAL", "UNKNOWN", "DATA_LOSS"}
WAITS = ("Sync", "Watch", "Logs", "ServerReflectionInfo")


async def test_raw_bytes_to_every_rpc_are_answered_properly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng, codes, slow = Random(7), Counter[str](), []
    async with a_world(tmp_path / "world") as world:
        for path in sorted(ROWS, key=lambda path: ("Delete" in path, path)):  # what is deleted is missed by the rest
            for who in ("anonymous", "ana", "admin"):
                sent = [noise(rng, path, world, who) for _ in range(CALLS)]
                for at in range(0, CALLS, 20):
                    answers = await asyncio.gather(*(one(world, path, who, data) for data in sent[at : at + 20]))
                    codes.update(code for code, _ in answers)
                    slow += [(path, seconds) for _, seconds in answers if seconds > 5 * LONGEST]
                    assert not BAD & {code for code, _ in answers}, (path, who, answers)
        code, _ = await one(world, "/grpc.health.v1.Health/Check", "anonymous", b"")
        assert code == OK
    print(f"{sum(codes.values())} calls: {dict(codes)}")
    assert not slow
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


TEXTS = [
    *(
        "",
        "alpha",
        "beta",
        "gone",
        "../../etc/passwd",
        "a' OR 1=1 --",
        "\x00",
        "%",
        "*",
        "@lab",
        "\u202e\x1b[2J",
        "9" * 40,
    ),
    *("x" * 5_000, "{}", "[]", '{"nodes_free": 1e999}', "null", "admin", "running", "at-most-once", "1-9", "afterok:1"),
    *(
        "constraint",
        "random",
        "stdout",
        "job:read:own",
        "submit:*",
        "abcdefabcdef",
        "n0",
        "down",
        "ana",
        "lab",
        JOBSPEC,
    ),
]
NUMBERS = [0, 1, 2, 3, -1, 10_000, 2**31 - 1, -(2**31)]
LARGE = [*NUMBERS, 2**63 - 1, -(2**63), 2**32]
FLOATS = [0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e308, 1e-308, 2e9]


def filled(rng: Random, kind: Any, depth: int = 0) -> Any:
    """A message of that kind whose fields hold strange values."""
    made = message_factory.GetMessageClass(kind)()
    for field in kind.fields:
        if rng.random() < 0.3:
            continue
        many = rng.randrange(3) if field.is_repeated else 1
        for _ in range(many):
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                entry = field.message_type.fields_by_name
                key = strange(rng, entry["key"])
                if entry["value"].message_type is None:
                    getattr(made, field.name)[key] = strange(rng, entry["value"])
            elif field.message_type is not None:
                inner = filled(rng, field.message_type, depth + 1) if depth < 4 else None
                if inner is not None and field.is_repeated:
                    getattr(made, field.name).append(inner)
                elif inner is not None:
                    getattr(made, field.name).CopyFrom(inner)
            elif field.is_repeated:
                getattr(made, field.name).append(strange(rng, field))
            else:
                setattr(made, field.name, strange(rng, field))
    return made


def strange(rng: Random, field: Any) -> Any:
    """A value at the edge of what a field can hold."""
    if field.cpp_type == field.CPPTYPE_STRING:
        return rng.randbytes(50) if field.type == field.TYPE_BYTES else rng.choice(TEXTS)
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice(FLOATS)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice([0, 1, 77])
    return rng.choice(LARGE if field.cpp_type == field.CPPTYPE_INT64 else NUMBERS)


def noise(rng: Random, path: str, world: World, who: str) -> bytes:
    """Random bytes, a message full of strange values, or a good one with bytes changed, cut or doubled."""
    dice = rng.random()
    if dice < 0.6:
        return bytes(filled(rng, method_of(path).input_type).SerializeToString())
    if dice < 0.7:
        return rng.randbytes(rng.randrange(200))
    sent = ROWS[path].send(world, rng.choice(CASES), who)
    data = bytearray((sent[0] if isinstance(sent, list) else sent).SerializeToString() or b"\n\x01a")
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(4)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randrange(8)]
        elif kind == 2:
            data[at:at] = rng.randbytes(rng.randrange(8))
        else:
            data += data[at:]
    return bytes(data)


async def one(world: World, path: str, who: str, data: bytes) -> tuple[str, float]:
    """Send bytes as they are; the code, and how long it took."""
    method = method_of(path)
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    read_back = message_factory.GetMessageClass(method.output_type).FromString
    stub = getattr(world.channel, kind)(path, request_serializer=None, response_deserializer=read_back)
    began = time.monotonic()
    waits = method.name in WAITS
    try:
        made = stub(iter([data]) if method.client_streaming else data, metadata=world.metadata(who),
                    timeout=0.2 if waits else 30)  # fmt: skip
        if method.server_streaming:
            async for _ in made:
                made.cancel()
                break
        else:
            await made
        return OK, time.monotonic() - began
    except asyncio.CancelledError:
        return OK, 0.0
    except aio.AioRpcError as error:
        return error.code().name, 0.0 if waits else time.monotonic() - began


SCRIPT = """#!/bin/bash
#SBATCH -N 2 -n 4 --time=10:00
#RAINBOW --prefer start
# flux: -N1
echo hello
"""
YAML = """version: 1
resources:
  - type: slot
    count: 2
    label: default
    with:
      - {type: core, count: {min: 1, max: 4}}
tasks:
  - command: ["a", "b"]
    slot: default
    count: {per_slot: 1}
attributes: {system: {duration: 3600.0}}
"""
EXPRESSION = 'nodes_free > 4 && (cost ?? 2) * 3 <= max(1, 2) ? "a" IN ["a", "b"] : !true'


def compute(text: str) -> None:
    """Compile and evaluate."""
    compile_expression(text)({"nodes_free": 5.0, "cost": 1.0})


SUBJECTS: dict[str, tuple[list[str], Callable[[str], object]]] = {
    "graphs": ([a_graph().decode(), a_graph(3, 2, 1).decode()], lambda text: read(text.encode("utf-8", "replace"))),
    "jobspecs": ([YAML, JOBSPEC, SCRIPT, json.dumps({"version": 9999})], parse),
    "expressions": ([EXPRESSION, "1 + 2 * x ** 3 % 4", "round(abs(-3.5)) / 0"], compute),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_broken_documents_are_refused_quickly_and_never_a_fault(subject: str) -> None:
    rng, outcomes = Random(11), Counter[str]()
    seeds, reading = SUBJECTS[subject]
    for _ in range(DOCUMENTS):
        text = broken(rng, rng.choice(seeds))
        began = time.process_time()
        try:
            reading(text)
            outcomes["read"] += 1
        except (RainbowError, ExpressionError):
            outcomes["refused"] += 1
        assert time.process_time() - began < LONGEST, text[:500]
    print(f"{DOCUMENTS} {subject}: {dict(outcomes)}")
    assert outcomes["refused"] > DOCUMENTS // 4


TOKENS = [
    *"\"'{}[]:,\n\t\x00\ud800\u202e\U0001f600",
    *(
        "&a ",
        "*a",
        "<<: ",
        "!!python/object ",
        "null",
        "1e400",
        "NaN",
        "-1",
        "9" * 30,
        "  ",
        "- ",
        "**",
        "??",
        "(" * 30,
    ),
]


def broken(rng: Random, text: str) -> str:
    """A document with a few things changed."""
    for _ in range(rng.randrange(1, 5)):
        at, kind = rng.randrange(len(text) + 1), rng.randrange(5)
        if kind == 0:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randrange(12) :]
        elif kind == 2:
            text = text[:at] + text[at:] * rng.randrange(1, 3)
        elif kind == 3:
            text = text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0xD7FF)])) + text[at + 1 :]
        else:
            text = text[:at]
    return text


BOMBS = {
    "aliases": "a0: &a0 [x,x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n},*a{n}]\n" for n in range(20)),
    "merges": "a: &a {x: 1}\n" + "".join(f"b{n}: &b{n} {{<<: [*a, *a]}}\n" for n in range(50)),
    "depth": "[" * 50_000,
    "mapping depth": "{a: " * 10_000,
    "json depth": '{"a":' * 20_000,
    "numbers": "version: " + "9" * 60_000,
    "floats": "version: 1\nresources: [{type: node, count: 1e999999}]",
    "sexagesimal": "version: " + "1:" * 20_000 + "1",
    "tag": "!!python/object/apply:os.system ['true']",
    "wide": json.dumps({"version": 1, "resources": [{"type": "node", "count": 1}] * 20_000}),
    "long key": json.dumps({"k" * 60_000: 1}),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_within_a_second(bomb: str) -> None:
    began = time.process_time()
    with pytest.raises(RainbowError):
        parse(BOMBS[bomb])
    assert time.process_time() - began < LONGEST


@pytest.mark.parametrize(
    "text", ["9**9**9", "2**(2**(2**9))", "(" * 5_000, "!" * 5_000, "a" * 100_000, "-" * 900 + "1"]
)
def test_expressions_that_would_never_end_do(text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(RainbowError, ExpressionError):
        compute(text)
    assert time.process_time() - began < LONGEST

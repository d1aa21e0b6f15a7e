"""The pipeline: unknown callers are authenticated before their message is read, known ones are served directly."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from grpc import aio

from rainbow_sched.server.admission.limits import AdmissionLimits
from tests.support.calls import bearer
from tests.unit.access.calls import ask, code_of
from tests.unit.access.world import a_world


async def test_a_credential_that_was_valid_is_served_directly_and_a_revoked_one_is_rejected(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path / "world") as world:
        authenticator = world.running.admission.authenticator
        bob = world.credentials["bob"]
        known = [("authorization", f"Bearer {bob}")]
        assert await code_of(ask(world.channel, "Access/WhoAmI", bob)) == "OK"
        assert authenticator.has_known_credential(known)
        assert not authenticator.has_known_credential([("authorization", "Bearer somebody")])
        assert not authenticator.has_known_credential([])
        await ask(world.channel, "Access/RevokeToken", world.credentials["admin"], id=world.tokens["other"])
        assert await code_of(ask(world.channel, "Access/WhoAmI", bob)) == "UNAUTHENTICATED"


async def test_a_call_is_refused_by_the_first_check_that_it_does_not_pass(tmp_path: Path) -> None:
    """Size, credential, access rule, rate: each call below fails this check and all that follow."""
    limits = AdmissionLimits(rate=0.001, burst=3, refused_burst=1_000)
    async with a_world(tmp_path / "world", limits=limits) as world:
        ana = world.credentials["ana"]
        list_users = world.channel.unary_unary("/rainbow.v2.Access/ListUsers")

        async def refused(data: bytes, credential: str) -> str:
            with pytest.raises(aio.AioRpcError) as error:
                await list_users(data, metadata=bearer(credential), timeout=20)
            code: grpc.StatusCode = error.value.code()
            return code.name

        while await code_of(ask(world.channel, "Jobs/List", ana)) == "OK":
            pass  # ana has no calls left; ListUsers is not for her either
        assert await refused(b"\xff\xff\xff", ana) == "INVALID_ARGUMENT"
        assert await refused(b"", "somebody") == "UNAUTHENTICATED"
        assert await refused(b"", ana) == "PERMISSION_DENIED"
        assert await code_of(ask(world.channel, "Jobs/List", ana)) == "RESOURCE_EXHAUSTED"
        assert await refused(b"\xff\xff\xff", "somebody") == "UNAUTHENTICATED", "it is not even read"


async def test_a_refused_call_costs_its_caller_nothing_of_the_rate(tmp_path: Path) -> None:
    limits = AdmissionLimits(rate=0.001, burst=3, refused_burst=1_000)
    async with a_world(tmp_path / "world", limits=limits) as world:
        auditor = world.credentials["auditor"]
        for _ in range(5):
            assert await code_of(ask(world.channel, "Access/ListUsers", auditor)) == "PERMISSION_DENIED"
        codes = [await code_of(ask(world.channel, "Jobs/List", auditor)) for _ in range(4)]
        assert codes == ["OK"] * 3 + ["RESOURCE_EXHAUSTED"]

"""A job whose bound nothing could ever meet is refused, in every form in which it can be submitted."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.request import Requirement, Within
from rainbow_sched.pb.v2 import jobs_pb2
from rainbow_sched.service.submission.intake import Submission
from rainbow_sched.service.views import jobs
from tests.support.graph_builders import a_level, a_request, slots
from tests.support.service import ADMIN, a_service, submit, with_cluster
from tests.unit.access.calls import ask
from tests.unit.access.world import a_world

WORD = a_request(slots(1, a_level("core", 1), requires=(Requirement("compiler", (Within("value", min="gcc"),)),)))
NODE = {
    "type": "node",
    "replicas": 1,
    "requires": [{"name": "compiler", "field": "value", "min": "gcc"}],
    "with": [{"type": "core", "count": 1}],
}
NEXTGEN = json.dumps({"version": 1, "resources": {"job": NODE}, "tasks": [{"command": ["true"]}]})


@pytest.mark.parametrize("call", ["Submit", "Plan"])
@pytest.mark.parametrize("spec", [jobs_pb2.Spec(canonical=to_json(WORD)), jobs_pb2.Spec(text=NEXTGEN)])
async def test_a_word_as_a_bound_is_refused(tmp_path: Path, call: str, spec: jobs_pb2.Spec) -> None:
    async with a_world(tmp_path / "world") as world:
        with pytest.raises(grpc.aio.AioRpcError, match="'gcc' is not a bound: write a number, or a version") as refused:
            await ask(world.channel, f"Jobs/{call}", world.credentials["ana"], spec=spec)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_job_that_was_stored_with_such_a_bound_is_read_and_shown_as_before(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [made] = await submit(service, Submission(owner="ana", request=prepare(WORD), name="old"))
    async with a_service(tmp_path) as service:
        await service.scheduling_loop.decide_pending()
        view = await jobs.get(service.core, made.id, ADMIN)
        assert view.job.spec == to_json(WORD)
        assert view.job.state.value == "held"

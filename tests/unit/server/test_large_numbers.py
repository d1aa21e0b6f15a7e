"""Numbers too large for a message: whoever sends one does not spoil the answers of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.candidate import MAX_COUNTED, Demand
from rainbow_sched.model.errors import TooLarge
from rainbow_sched.model.request import MAX_COUNT, Count, Group, Level, Request
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.service import a_request
from tests.unit.access.calls import ask
from tests.unit.access.test_tokens import fields_of
from tests.unit.access.world import a_submit, a_world


def a_huge_request() -> Request:
    inner = Level(type="core", count=Count(MAX_COUNT))
    node = Level(
        type="node", count=Count(MAX_COUNT), inside=(Level(type="socket", count=Count(MAX_COUNT), inside=(inner,)),)
    )
    return Request(groups=(Group(levels=(node,)),), tasks=a_request().tasks)


def test_what_is_counted_of_a_request_has_an_end() -> None:
    demand = Demand.of(a_huge_request())
    assert (demand.nodes, demand.cores) == (MAX_COUNTED, MAX_COUNTED)


async def test_a_job_for_more_nodes_than_there_are_numbers_is_listed_with_the_others(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        ana = world.credentials["ana"]
        spec = jobs_pb2.Spec(canonical=to_json(a_huge_request()))
        await ask(world.channel, "Jobs/Submit", ana, spec=spec)
        page = await ask(world.channel, "Jobs/List", ana)
        assert page.jobs[0].nodes == MAX_COUNTED


@pytest.mark.parametrize("index", ["99999999999", "\N{SUPERSCRIPT TWO}", "-1", "x"])
async def test_a_label_that_is_no_index_does_not_keep_a_cluster_from_its_offers(tmp_path: Path, index: str) -> None:
    async with a_world(tmp_path / "world") as world:
        job = a_submit("alpha")
        job.terms.labels["array_index"] = index
        made = await ask(world.channel, "Jobs/Submit", world.credentials["ana"], **fields_of(job))
        agent, offered = world.credentials["agent-alpha"], []
        for seq in (1, 2):
            sync = {"cluster": "alpha", "epoch": "e", "seq": seq, "want": 50}
            offered += (await ask(world.channel, "Agents/Sync", agent, **sync)).offers
        mine = [offer for offer in offered if offer.attempt.job == made.id]
        assert [(offer.is_array, offer.array_index) for offer in mine] == [(False, 0)]


def test_a_graph_whose_sizes_are_more_than_can_be_summed_is_refused() -> None:
    def a_graph(count: int) -> bytes:
        memory = {"type": "memory", "count": count, "size": 2**53}
        return json.dumps({"rainbow": "graph/1", "cluster": "c", "with": [memory]}).encode()

    with pytest.raises(TooLarge, match="use a larger unit"):
        read(a_graph(600))
    read(a_graph(500))

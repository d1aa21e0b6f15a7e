"""A scripted agent for tests of the service; it keeps no state but its sequence number."""

from __future__ import annotations

from dataclasses import fields

from rainbow_sched.model.attempt import Attempt, AttemptState
from rainbow_sched.protocol.messages import AttemptRef, Report, SyncAnswer, SyncMessage, SyncRequest
from rainbow_sched.service.assembly import Service

_SENDER = {field.name for field in fields(SyncRequest)}


def sync_request(cluster: str, epoch: str, seq: int, **values: object) -> SyncRequest:
    """Return a request with these values of the message and of its sender."""
    sender = {name: value for name, value in values.items() if name in _SENDER}
    content = {name: value for name, value in values.items() if name not in _SENDER}
    message = SyncMessage(seq=seq, **content)  # type: ignore[arg-type]  # what one test says
    return SyncRequest(message=message, cluster=cluster, epoch=epoch, **sender)  # type: ignore[arg-type]


def kills(answer: SyncAnswer) -> list[AttemptRef]:
    """Return the attempts that the server does not know as live."""
    return [command.ref for command in answer.commands if command.kind == "kill" and command.id == 0]


async def stored_attempt(service: Service, ref: AttemptRef) -> Attempt:
    """Return the attempt as the server has stored it."""
    found = await service.core.store.read(lambda tx: tx.attempt(ref.job, ref.n))
    assert found is not None
    return found


class Agent:
    """The agent of one cluster."""

    def __init__(self, service: Service, cluster: str, *, guards: bool = True, epoch: str = "") -> None:
        self.service, self.cluster, self.guards, self.seq = service, cluster, guards, 0
        self.epoch = epoch or f"{cluster}.1"

    async def says(self, **values: object) -> SyncAnswer:
        """Send one Sync and return the answer."""
        self.seq += 1
        values = {"manager": "local", "guards": self.guards, **values}
        return await self.service.agents.sync(sync_request(self.cluster, self.epoch, self.seq, **values), "server")

    async def runs(self) -> AttemptRef:
        """Take one job and start it."""
        [offer] = (await self.says(want=1)).offers or (await self.says(want=1)).offers
        await self.says(accepts=(offer.ref,))
        await self.says(reports=(Report(ref=offer.ref, state=AttemptState.RUNNING),))
        return offer.ref

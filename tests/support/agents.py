"""A scripted agent for tests of the service; it keeps no state but its sequence number."""

from __future__ import annotations

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.service.agents.sync_messages import AgentMessage, AgentReply, AttemptRef, AttemptReport
from rainbow_sched.service.assembly import Service


class Agent:
    """The agent of one cluster."""

    def __init__(self, service: Service, cluster: str, *, guards: bool = True, epoch: str = "") -> None:
        self.service, self.cluster, self.guards, self.seq = service, cluster, guards, 0
        self.epoch = epoch or f"{cluster}.1"

    async def says(self, **fields: object) -> AgentReply:
        """Send one Sync; return the reply, or an empty one if the reply had been stored before."""
        self.seq += 1
        replies: list[AgentReply] = []

        def encode(out: AgentReply) -> bytes:
            replies.append(out)
            return b"answer"

        message = AgentMessage(
            cluster=self.cluster,
            epoch=self.epoch,
            seq=self.seq,
            manager="local",
            guards=self.guards,
            **fields,  # type: ignore[arg-type]  # what one test says
        )
        await self.service.agents.sync(message, encode)
        return replies[-1] if replies else AgentReply()

    async def runs(self) -> AttemptRef:
        """Take one job and start it."""
        offers = (await self.says(want=1)).offers or (await self.says(want=1)).offers
        ref = AttemptRef(offers[0][0].job, offers[0][0].n, offers[0][0].token)
        await self.says(accepts=(ref,))
        await self.says(reports=(AttemptReport(ref=ref, state=AttemptState.RUNNING),))
        return ref
